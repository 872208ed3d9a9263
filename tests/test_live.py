"""Live mode: the router in the running session, against hand-made sessions and against recorded branches."""

import json

import pytest
from click.testing import CliRunner
from corridor import Corridor

from pipeline.agents.protocol import Completion
from pipeline.cli import cir
from pipeline.config.load import parse_study
from pipeline.config.models import AgentSection, Alteration, Harness, RecoveryTexts
from pipeline.config.scopes import settings
from pipeline.errors import BadInput, CheckFailed
from pipeline.evaluation.live import RoutedSession
from pipeline.harness.conditions import condition
from pipeline.harness.operators import operator
from pipeline.harness.play import Settings
from pipeline.harness.session import Altered, Session
from pipeline.records.schemas import decisions_schema
from pipeline.records.tables import read_rows, read_table, write_rows, write_table
from pipeline.router.features import FEATURES
from pipeline.router.model import Router
from pipeline.router.prefix import prefix_at

CONDITIONS = ("clean", "stale-1")
STUDY = {
    "study": "live",
    "games": {"generate": {"seed": 11, "splits": {"train": 3, "valid_seen": 12}}},
    "cohorts": {
        "main": {"role": "fit", "split": "train", "size": 1, "reserve": 1.0},
        "held": {"role": "evaluate", "split": "valid_seen", "size": 8, "reserve": 0.5},
    },
    "protocol": {"conditions": list(CONDITIONS), "delays": [1, 2, 4], "operators": ["refresh"]},
    "router": {"conditions": ["clean", "stale-1"]},
}


def router_value(weights=None, alpha=0.5, **changes):
    """A router by hand: p_err = expit of the weighted features, a threshold on it, the outcome models constant."""
    weights = weights or {}
    return {
        "format": 1, "features": list(FEATURES),
        "scaling": {"mean": [0.0] * len(FEATURES), "scale": [1.0] * len(FEATURES)},
        "models": {
            "p_err": {"intercept": weights.get("", 0.0), "coefficients": [weights.get(name, 0.0) for name in FEATURES]},
            "p_0": {"intercept": -2.0, "coefficients": [0.0] * len(FEATURES)},
            "p_1": {"intercept": 2.0, "coefficients": [0.0] * len(FEATURES)},
        },
        "never": False, "thresholds": {"alpha": alpha, "beta": 0.0, "gamma": 0.0},
        "comparators": {"sequential-anomaly": {"alpha": None}, "rate-matched-anomaly": {"alpha": None}},
        "lambda": 2, "epsilon": 0.02, "delays": [1, 2, 4], "operator": "refresh", "fit": {"tasks": [], "folders": []},
    } | changes  # fmt: skip


class Script:
    """An agent that says given lines, then gives up."""

    identity = {"kind": "script"}

    def __init__(self, *lines):
        self.lines = list(lines)

    def complete(self, messages):
        turn = sum(message.role == "assistant" for message in messages)
        return Completion(self.lines[turn] if turn < len(self.lines) else "give up", None, None)


def routed(value, lines, k=1, **budget):
    """A routed session in the corridor under `missing` at k, played to its end."""
    plain = Settings(AgentSection(kind="scripted"), Harness(**budget))
    altered = Altered(condition("missing", Alteration()), k)
    session = RoutedSession("f/t", Corridor(9), plain, altered, Router.parse(value, "router"))
    return session, session.run(Script(*lines))


def test_it_asks_at_the_candidate_actions_only_about_what_was_shown():
    lines = ["forward", "think: hm", "forward", "nonsense\nof two lines", "forward", "think: hm", "forward", "forward"]
    session, episode = routed(router_value(alpha=1.0), lines)
    assert [moment["delay"] for moment in session.moments] == [1, 2, 4]
    router = Router.parse(router_value(alpha=1.0), "router")
    for moment in session.moments:
        expected = router.decide(prefix_at(episode.steps, 1 + moment["delay"], 49, 64)).signals
        assert (moment["p_err"], moment["p_0"], moment["u"]) == (expected.p_err, expected.p_0, expected.u)
    assert session.recovered_at is None
    assert not any(step.kind == "recover" for step in episode.steps)


@pytest.mark.parametrize(("delays", "first"), [([1, 2, 4], 1), ([2, 4], 2), ([0, 1], 0)])
def test_the_first_yes_recovers_before_the_next_turn_and_is_the_last_question(delays, first):
    lines = ["forward", "forward", "think: hm", "forward", "forward"]
    session, episode = routed(router_value(alpha=0.0, delays=delays), lines)
    by_hand = Session("f/t", Corridor(9), Harness(), Altered(condition("missing", Alteration()), 1))
    while by_hand.agent_actions < 1 + first:
        by_hand.advance(lines[by_hand.turns])
    by_hand.intervene(operator("refresh", RecoveryTexts()))
    assert by_hand.run(Script(*lines)).transcript_hash == episode.transcript_hash
    assert [moment["intervene"] for moment in session.moments] == [True]
    assert session.recovered_at == first


def test_an_ended_episode_is_not_asked():
    session, episode = routed(router_value(alpha=0.0, delays=[4]), ["forward"] * 3)
    assert (episode.exit, session.moments, session.recovered_at) == ("gave-up", [], None)
    session, episode = routed(router_value(alpha=0.0, delays=[1]), ["forward"] * 4, actions=2)
    assert (episode.exit, session.moments) == ("action-limit", [])
    session, episode = routed(router_value(alpha=0.0, delays=[1]), ["forward"] * 4, turns=2)
    assert (episode.exit, session.moments) == ("turn-limit", [])


def invoke(*arguments):
    return CliRunner().invoke(cir, [str(argument) for argument in arguments])


def call(*arguments):
    result = invoke(*arguments)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result


def keys(stage):
    return settings(parse_study(STUDY, "test"), stage)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A generated study up to its pairs and decisions, held-out cohort only."""
    root = tmp_path_factory.mktemp("live")
    games, candidates, translations = (root / f"{n}.parquet" for n in ("games", "candidates", "translations"))
    call("games", "generate", "--settings", keys("generate"), "--out", root / "games", "--index", games)
    call("cohorts", "draw", "--games", games, "--settings", keys("draw"), "--out", candidates)
    call("games", "translate", games, "--only", candidates, "--root", root / "games", "--out", translations)
    for cohort in ("main", "held"):
        call("factual", "--cohort", cohort, "--candidates", candidates, "--translations", translations,
             "--settings", keys("factual"), "--out", root / f"cohort={cohort}" / "factual.parquet")  # fmt: skip
    settled = root / "cohorts.parquet"
    call(
        "cohorts",
        "settle",
        "--candidates",
        candidates,
        "--trajectories",
        root,
        "--settings",
        keys("settle"),
        "--out",
        settled,
    )
    write_rows(settled, [row for row in read_rows(settled, "cohorts") if row["cohort"] == "held"], "cohorts")
    for name in CONDITIONS:
        trunk = root / "cohort=held" / f"condition={name}" / "trunk.parquet"
        call("trunk", "--cohort", "held", "--condition", name, "--cohorts", settled, "--factual", root / "cohort=held/factual.parquet",
             "--translations", translations, "--settings", keys("trunk"), "--out", trunk)  # fmt: skip
        for delay in (1, 2, 4):
            part = root / "forks/cohort=held" / f"condition={name}" / f"delay={delay}" / "operator=refresh/part.parquet"
            call("fork", "--delay", delay, "--operator", "refresh", "--trunk", trunk, "--translations", translations,
                 "--settings", keys("fork"), "--out", part)  # fmt: skip
    call("pairs", "--cohorts", settled, "--trajectories", root, "--forks", root / "forks", "--settings", keys("pairs"),
         "--out", root / "pairs.parquet", "--exclusions", root / "exclusions.parquet")  # fmt: skip
    call("features", "--pairs", root / "pairs.parquet", "--trajectories", root, "--cohort", "held",
         "--settings", keys("features"), "--out", root / "decisions.parquet")  # fmt: skip
    return root


def live(world, folder, value, *more, pairs=None, decisions=None, conditions=CONDITIONS):
    (folder / "router.json").write_text(json.dumps(value))
    trunks = [x for name in conditions for x in ("--trunk", world / f"cohort=held/condition={name}/trunk.parquet")]
    return invoke("live", folder / "router.json", *trunks, "--translations", world / "translations.parquet",
                  "--decisions", decisions or world / "decisions.parquet", "--pairs", pairs or world / "pairs.parquet",
                  "--settings", keys("live"), "--out", folder / "live.parquet", *more)  # fmt: skip


# Acts at once, never, and by features that come and go, so that every candidate delay is somewhere the first.
ROUTERS = {
    "at once": router_value(alpha=0.0),
    "never": router_value(never=True, thresholds=dict.fromkeys(("alpha", "beta", "gamma"))),
    "new words": router_value({"": 2.0, "x_recent_new_words": -8.0}),
    "at the last": router_value(alpha=0.0, delays=[4]),
    "no-ops": router_value({"": -1.0, "x_last_no_op": 3.0, "x_last_contradicts": 3.0}, operator="refresh"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ROUTERS)
def test_every_episode_agrees_with_its_look_up_and_its_recorded_branch(world, tmp_path, name):
    result = live(world, tmp_path, ROUTERS[name], "--format", "json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["agree"] == json.loads(result.stdout)["episodes"] == 8 * len(CONDITIONS)
    rows = read_rows(tmp_path / "live.parquet", "live")
    # An oracle that the command doesn't look at: the branch itself, to the last message.
    for row in rows:
        folder = f"condition={row['condition']}"
        if row["delay"] is None:
            path, column = world / "cohort=held" / folder / "trunk.parquet", "transcript_hash"
        else:
            path = world / "forks/cohort=held" / folder / f"delay={row['delay']}" / "operator=refresh/part.parquet"
            column = "final_transcript_hash"
        branch = next(other for other in read_rows(path) if other["task"] == row["task"])
        assert row["transcript_hash"] == branch[column]
        assert (row["success"], row["exit"], row["turns"], row["actions"]) == tuple(
            branch[c] for c in ("success", "exit", "turns", "actions")
        )
    acted = {row["delay"] for row in rows}
    assert (
        acted
        >= {"at once": {1}, "never": {None}, "new words": {None, 1, 2}, "at the last": {4}, "no-ops": {None, 1}}[name]
    )
    assert (name != "never") or acted == {None}


@pytest.mark.slow
def test_workers_change_no_byte(world, tmp_path):
    for name, threads in (("a", 1), ("b", 2)):
        (tmp_path / name).mkdir()
        assert live(world, tmp_path / name, ROUTERS["new words"], "--threads", threads).exit_code == 0
    assert (tmp_path / "a/live.parquet").read_bytes() == (tmp_path / "b/live.parquet").read_bytes()


@pytest.mark.slow
def test_an_episode_that_differs_is_named_and_exits_1(world, tmp_path):
    """One recorded outcome turned round, in both tables: the episode is named, the others still agree."""
    pairs, decisions = read_table(world / "pairs.parquet"), read_rows(world / "decisions.parquet")
    rows = pairs.to_pylist()
    victim = next(row for row in rows if row["delay"] == 1 and row["condition"] == "stale-1" and row["intervened"])
    victim["ym"] = not victim["ym"]
    key = [victim[name] for name in ("task", "condition", "delay")]
    for row in decisions:
        if [row[name] for name in ("task", "condition", "delay")] == key:
            row["ym"] = victim["ym"]
    write_table(tmp_path / "pairs.parquet", type(pairs).from_pylist(rows, schema=pairs.schema))
    write_rows(tmp_path / "decisions.parquet", decisions, decisions_schema(list(FEATURES)))
    changed = {"pairs": tmp_path / "pairs.parquet", "decisions": tmp_path / "decisions.parquet"}
    result = live(world, tmp_path, ROUTERS["at once"], **changed)
    assert isinstance(result.exception, CheckFailed)
    assert f"1 of {8 * len(CONDITIONS)} live episodes differ" in str(result.exception)
    assert f"{victim['task']} stale-1 (outcome: live" in str(result.exception)
    assert [row["task"] for row in read_rows(tmp_path / "live.parquet") if row["difference"]] == [victim["task"]]


@pytest.mark.slow
def test_a_changed_feature_is_a_difference_in_decision_or_signals(world, tmp_path):
    rows = read_rows(world / "decisions.parquet")
    victim = next(row for row in rows if row["live"] and row["delay"] == 1)
    victim["x_recent_new_words"] = 1.5 - victim["x_recent_new_words"]
    write_rows(tmp_path / "decisions.parquet", rows, decisions_schema(list(FEATURES)))
    for value, message in (
        (router_value({"": 2.0, "x_recent_new_words": -8.0}, alpha=1.0), "signals at delay 1"),
        (router_value({"": -40.0, "x_recent_new_words": 40.0}), "decision: live"),
    ):
        result = live(world, tmp_path, value, decisions=tmp_path / "decisions.parquet")
        assert isinstance(result.exception, CheckFailed)
        assert f"{victim['task']} {victim['condition']} ({message}" in str(result.exception)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("column", "reason"), [("state_hash", "state-mismatch"), ("transcript_hash", "transcript-mismatch")]
)
def test_a_prefix_that_does_not_come_back_is_not_played(world, tmp_path, column, reason):
    """A trunk whose hash at action k is another one: its episode is excluded by name, the others agree."""
    folder = tmp_path / "cohort=held" / "condition=stale-1"
    folder.mkdir(parents=True)
    trunks = read_rows(world / "cohort=held/condition=stale-1/trunk.parquet", "trajectories")
    acts = [step for step in trunks[0]["steps"] if step["kind"] == "act"]
    acts[trunks[0]["altered_at"] - 1][column] = "0" * 64
    write_rows(folder / "trunk.parquet", trunks, "trajectories")
    (folder.parent / "condition=clean").symlink_to(world / "cohort=held/condition=clean")
    for name in ("translations", "decisions", "pairs"):
        (tmp_path / f"{name}.parquet").symlink_to(world / f"{name}.parquet")
    result = live(tmp_path, tmp_path, ROUTERS["at once"])
    assert isinstance(result.exception, CheckFailed)
    assert f"{trunks[0]['task']} stale-1 ({reason})" in str(result.exception)
    rows = read_rows(tmp_path / "live.parquet", "live")
    assert [(row["task"], row["excluded"]) for row in rows if row["difference"]] == [(trunks[0]["task"], reason)]


@pytest.mark.slow
def test_episodes_without_a_look_up_are_counted_and_not_played(world, tmp_path):
    pairs = read_table(world / "pairs.parquet")
    write_table(tmp_path / "pairs.parquet", pairs.slice(1))
    result = live(world, tmp_path, ROUTERS["never"], "--format", "json", pairs=tmp_path / "pairs.parquet")
    assert json.loads(result.stdout)["episodes"] == 8 * len(CONDITIONS) - 1
    assert f"1 of {8 * len(CONDITIONS)} episodes have no look-up" in result.stderr


@pytest.mark.slow
def test_wrong_calls_have_a_clear_end(world, tmp_path):
    for result, message in (
        (live(world, tmp_path, ROUTERS["never"], conditions=("clean",)), "8 held-out episodes have no trunk"),
        (live(world, tmp_path, router_value(delays=[4, 1])), "ascending order"),
        (live(world, tmp_path, router_value(operator="reveal")), "operator reveal"),
    ):
        assert isinstance(result.exception, BadInput)
        assert message in str(result.exception)
