"""Tables of the router: differences between policies, who is treated when, what a net rescue costs."""

from collections import Counter
from collections.abc import Mapping

from pipeline.report import links
from pipeline.report.inputs import Inputs, Row
from pipeline.report.tables import Table
from pipeline.report.treated import Key, Treated
from pipeline.report.wording import number, p_text, signed, span

PER = "_per_net_rescue"


def difference_rows(inputs: Inputs, policy: str = "cir") -> list[Row]:
    """A policy less each other one, from summary.json's differences; turned round where it stands second there."""
    rows = []
    for row in inputs.evaluation.get("differences", []):
        if policy not in (row["policy"], row["versus"]):
            continue
        sign = 1 if row["policy"] == policy else -1
        ends = sorted(sign * end for end in row["ci95_pp"])
        counts = (row["better"], row["worse"])[::sign]
        rows.append(
            {"policy": policy, "versus": row["versus"] if sign == 1 else row["policy"], "difference_pp": sign * row["difference_pp"]}
            | {"ci_low_pp": ends[0], "ci_high_pp": ends[1], "better": counts[0], "worse": counts[1]}
            | {"sign_flip_p": row["sign_flip_p"]}
        )  # fmt: skip
    order = {row["policy"]: place for place, row in enumerate(inputs.policies)}
    return sorted(rows, key=lambda row: order.get(row["versus"], len(order)))


def difference_table(inputs: Inputs) -> Table:
    """The router less every other policy, paired inside the episodes."""
    return Table(
        "The router less each other policy, on the same episodes",
        ["policy", "difference, points", "95% interval", "better", "worse", "p"],
        [
            [row["versus"], signed(row["difference_pp"]), span(row["ci_low_pp"], row["ci_high_pp"])]
            + [number(row["better"]), number(row["worse"]), p_text(row["sign_flip_p"])]
            for row in difference_rows(inputs)
        ],
        note="better, worse: episodes that only the router, or only the other, ends well; p: exact sign-flip on per-task sums.",
    )


def treated_rows(inputs: Inputs, answers: Mapping[Key, Treated]) -> list[Row]:
    """By cohort, condition and delay: episodes in which the router fires there, and what came of it."""
    cells = {
        (pair["cohort"], pair["task"], pair["condition"], pair["delay"]): pair["cell"]
        for pair in inputs.pairs
        if pair["operator"] == inputs.router.operator
    }
    counted: dict[tuple[str, str, int | None], Counter[str]] = {}
    for (cohort, task, condition), answer in answers.items():
        of = counted.setdefault((cohort, condition, answer.fired), Counter())
        of["episodes"] += 1
        if answer.fired is not None:
            of[cells.get((cohort, task, condition, answer.fired), "no branch")] += 1
    roles = {name: cohort.role for name, cohort in inputs.study.cohorts.items()}
    conditions = inputs.study.protocol.conditions
    return [
        {"cohort": cohort, "role": roles[cohort], "condition": condition, "delay": delay, "episodes": of["episodes"]}
        | {name.replace("-", "_"): of[name] for name in ("rescue", "harm", "kept-success", "unchanged-failure")}
        for (cohort, condition, delay), of in sorted(
            counted.items(),
            key=lambda item: (
                roles[item[0][0]] != "evaluate",
                item[0][0],
                conditions.index(item[0][1]),
                item[0][2] or 1e9,
            ),
        )
    ]


def treated_table(inputs: Inputs, answers: Mapping[Key, Treated]) -> Table:
    """Who is treated when: intervention by condition and delay, each with its four cells."""
    rows = []
    for row in treated_rows(inputs, answers):
        never = row["delay"] is None
        where = {"cohort": row["cohort"], "condition": row["condition"], "delay": row["delay"], "fired": 1}
        cells = (
            ["–"] * 4
            if never
            else [
                links.episodes(str(row[cell.replace("-", "_")]), **where, cell=cell)
                for cell in ("rescue", "harm", "kept-success", "unchanged-failure")
            ]
        )
        episodes = str(row["episodes"]) if never else links.episodes(str(row["episodes"]), **where)
        rows.append([row["cohort"], row["condition"], "never" if never else str(row["delay"]), episodes, *cells])
    return Table(
        "Who is treated when",
        ["cohort", "shown", "intervenes at delay", "episodes", "rescue", "harm", "kept success", "unchanged failure"],
        rows,
        labels=2,
        grouped=True,
        note="Held-out tasks first. On the fit cohort the router is asked with its out-of-fold predictions, so only tasks and "
        "conditions that it was fitted on stand here; episodes that ended before the first moment stand nowhere.",
    )


def cost_table(inputs: Inputs) -> Table:
    """What one net rescue costs each policy, in every unit that the evaluation counts."""
    units = sorted({name for policy in inputs.policies for name in policy if name.endswith(PER)})
    rows = []
    for policy in inputs.policies:
        net = policy["rescue"] - policy["harm"]
        values = [policy.get(name) for name in units]
        rows.append(
            [
                policy["policy"],
                number(net).replace("-", "−"),
                *("–" if value is None else f"{value:,.2f}" for value in values),
            ]
        )
    return Table(
        "Cost of a net rescue",
        ["policy", "net rescues", *(name.removesuffix(PER).replace("_", " ") for name in units)],
        rows,
        note="Units used on all held-out episodes over rescues less harms; a dash where there is no net rescue or the units are not known.",
    )
