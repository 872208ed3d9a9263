"""An episode as text in colour: what the agent wrote, what it was shown, the altered reply marked, where branches part.

Every text of an agent, a game or a file goes through `visible` and is never read as markup, so that a transcript can't
do anything to the terminal it is printed on.
"""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from pipeline.records.printing import WIDTH, visible
from pipeline.terminal.episodes import Episode

AGENT, SHOWN, DIM, ALTERED, RECOVERY, PART = "bold cyan", "", "dim", "bold yellow", "bold magenta", "bold green"


def print_episode(episode: Episode) -> None:
    """Print to stdout: as wide as the terminal, colours only there; elsewhere plain and 80 columns wide."""
    width = None if sys.stdout.isatty() else WIDTH
    console = Console(file=sys.stdout, width=width, highlight=False, markup=False, emoji=False)
    console.print(_heading(episode))
    steps = episode.row["steps"]
    fork = episode.fork_index
    for position, step in enumerate(steps[:fork]):
        console.print(_step(step, episode if episode.altered(position) else None))
    if episode.branch is None:
        console.print(_end("the end", episode.row))
    else:
        console.print(_branches(episode, fork))


def _heading(episode: Episode) -> Text:
    row, branch = episode.row, episode.branch
    lines = [f"{row['task']}"]
    if row["altered_at"] is None:
        lines.append(f"cohort {episode.cohort}, factual run: nothing altered, no recovery")
    else:
        lines.append(
            f"cohort {episode.cohort}, condition {row['condition']}, altered reply: action {row['altered_at']}"
        )
    if branch is not None:
        lines.append(f"branch: {branch['operator']} after action {branch['fork_action']} (delay {branch['delay']})")
    text = Text(visible(lines[0]) + "\n", style="bold")
    return text.append(visible("\n".join(lines[1:])) + "\n", style=DIM)


def _step(step: Mapping[str, Any], altered: Episode | None = None) -> Text:
    text = Text()
    if step["output"] is not None:
        who, style = ("recovery", RECOVERY) if step["kind"] == "recover" else ("agent", AGENT)
        text.append(f"[{step['index']}] {who}: ", style=DIM)
        text.append(visible(step["output"]) + "\n", style=style)
    if altered is not None:
        text.append(f"*** ALTERED ({visible(altered.row['condition'])})\n", style=ALTERED)
        same = " (the same text)" if step["observation_true"] == step["observation_shown"] else ""
        text.append("*** true:  ", style=ALTERED).append(visible(step["observation_true"] or "") + "\n", style=DIM)
        text.append(f"*** shown{same}: ", style=ALTERED).append(
            visible(step["observation_shown"] or "") + "\n", ALTERED
        )
    elif step["observation_shown"] is not None:
        text.append(visible(step["observation_shown"]) + "\n")
        # What an operator withheld, or the harness answered in the environment's place, differs from the true reply.
        if step["kind"] == "recover" and step["observation_true"] not in (None, step["observation_shown"]):
            text.append(f"(true reply, withheld: {visible(step['observation_true'])})\n", style=DIM)
    if step["rejection"] is not None:
        text.append(f"(refused: {visible(step['rejection'])})\n", style=DIM)
    return text


def _end(lead: str, row: Mapping[str, Any]) -> Text:
    outcome = "success" if row["success"] else "failure"
    text = Text(f"{lead}: ", style=DIM).append(outcome, style="bold green" if row["success"] else "bold red")
    text.append(f" ({row['exit']}, {row['turns']} turns, {row['actions']} actions)", style=DIM)
    if row["excluded"] is not None:
        text.append(f"\nexcluded, no outcome: {visible(row['excluded'])}", style="bold red")
    return text


def _branches(episode: Episode, fork: int | None) -> RenderableType:
    branch = episode.branch
    assert branch is not None
    if fork is None or not branch["steps"]:
        why = "the trunk had ended before the fork; its outcome is carried forward"
        lead = Text(f"{why if branch['carried_forward'] else 'the branch was not played'}\n", style=RECOVERY)
        return Group(lead, _end("trunk", episode.row), _end("branch", branch))
    parts = episode.part_at()
    said = "they never part" if parts is None else f"they part after {parts} equal turn(s), at the mark >>>"
    lines = Text(f"--- fork: the state after action {branch['fork_action']}; {said}\n", style=RECOVERY)
    table = Table.grid(padding=(0, 2, 0, 0), expand=True)
    table.add_column(ratio=1, overflow="fold")
    table.add_column(ratio=1, overflow="fold")
    name = visible(branch["operator"])
    table.add_row(Text("trunk, left alone", style="bold underline"), Text(f"branch, {name}", style="bold underline"))
    trunk = [(step, episode.altered(fork + place)) for place, step in enumerate(episode.row["steps"][fork:])]
    other = [(step, episode.altered_in_branch(place)) for place, step in enumerate(branch["steps"])]
    while other and other[0][0]["kind"] == "recover":
        table.add_row(Text(), _step(other.pop(0)[0]))
    for place in range(max(len(trunk), len(other))):
        table.add_row(*(_cell(side, place, place == parts, episode) for side in (trunk, other)))
    table.add_row(_end("the end", episode.row), _end("the end", branch))
    return Group(lines, table)


def _cell(side: Sequence[tuple[Mapping[str, Any], bool]], place: int, parting: bool, episode: Episode) -> Text:
    mark = Text(">>> ", style=PART) if parting else Text()
    if place >= len(side):
        return mark.append("(had ended)\n", style=DIM) if parting else mark
    step, altered = side[place]
    return mark.append_text(_step(step, episode if altered else None))
