"""Pairing, exclusions, effects and contrasts on small tables; published intervals through the command line."""

import csv
import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from pipeline.cli import cir
from pipeline.errors import BadInput, CheckFailed
from pipeline.outcomes.effects import Interval, contrast, effects
from pipeline.outcomes.pairing import pair_up
from pipeline.records.tables import read_rows, write_rows, write_table

CONDITIONS, DELAYS, OPERATORS = ["clean", "stale-2"], [0, 1], ["none", "refresh"]


def step(index, kind="act", true="a", shown=None):
    return {
        "index": index, "kind": kind, "output": "look", "action": "look", "observation_true": true,
        "observation_shown": true if shown is None else shown, "state_hash": "s", "transcript_hash": "t", "rejection": None,
    }  # fmt: skip


def episode(task, condition, success, shown="stale", **more):
    steps = [step(0, "reset", "room"), step(1), step(2, shown="a" if condition == "clean" else shown), step(3), step(4)]
    return {
        "task": task, "condition": condition, "agent": "a", "success": success, "exit": "success" if success else "turn-limit",
        "turns": 4, "actions": 4, "altered_at": 2, "steps": steps, "transcript_hash": "t", "prompt_tokens": None,
        "completion_tokens": None, "excluded": None,
    } | more  # fmt: skip


def branch(task, condition, delay, operator, success, **more):
    return episode(task, condition, success) | {
        "steps": [], "delay": delay, "operator": operator, "fork_action": 2 + delay, "state_hash": "s",
        "operator_hash": "0", "final_transcript_hash": "f", "intervened": operator != "none", "carried_forward": False,
    } | more  # fmt: skip


@pytest.fixture
def study(tmp_path):
    """A study of three tasks in one cohort, as files; call it again with changed records to write them anew."""

    def write(change=lambda kind, rows: rows):
        tasks = [f"folder{n}/trial{n}" for n in range(3)]
        cohorts = [
            {"cohort": "main", "role": "measure", "task": task, "folder": task.split("/")[0], "task_type": "simple",
             "feasible": True, "excluded": None, "factual_success": n < 2, "factual_actions": 8, "altered_at": 2}
            for n, task in enumerate(tasks)
        ]  # fmt: skip
        cohorts.append(cohorts[0] | {"task": "folder9/trial9", "feasible": False, "excluded": "too short"})
        write_rows(tmp_path / "cohorts.parquet", change("cohorts", cohorts), "cohorts")
        for e in CONDITIONS:
            trunks = change("trunk", [episode(task, e, e == "clean") for task in tasks])
            write_rows(tmp_path / f"trajectories/cohort=main/condition={e}/trunk.parquet", trunks, "trajectories")
            for d in DELAYS:
                for m in OPERATORS:
                    rows = [branch(task, e, d, m, e == "clean" or m == "refresh") for task in tasks]
                    where = tmp_path / f"forks/cohort=main/condition={e}/delay={d}/operator={m}/part.parquet"
                    write_rows(where, change("branch", rows), "forks")
        return tmp_path

    return write


def paired(folder, exclude_null=False):
    tables = pair_up(
        folder / "cohorts.parquet",
        folder / "trajectories",
        folder / "forks",
        CONDITIONS,
        DELAYS,
        OPERATORS,
        exclude_null,
    )
    return [table.to_pylist() for table in tables]


def test_every_planned_unit_becomes_a_pair(study):
    pairs, exclusions = paired(study())
    assert len(pairs) == 3 * 2 * 2 * 2
    assert [row["reason"] for row in exclusions] == ["too short"]
    assert exclusions[0]["condition"] is None
    cells = {(row["condition"], row["operator"], row["cell"]) for row in pairs}
    assert cells == {
        ("clean", "none", "kept-success"), ("clean", "refresh", "kept-success"),
        ("stale-2", "none", "unchanged-failure"), ("stale-2", "refresh", "rescue"),
    }  # fmt: skip
    assert not any(row["null_alteration"] for row in pairs)


def test_a_pair_names_its_two_episodes(study):
    def change(kind, rows):
        if kind == "trunk":
            return [row | {"episode_key": f"{row['condition']} {row['task']}"} for row in rows]
        if kind == "branch" and rows[0]["operator"] == "refresh":
            return [row | {"episode_key": f"branch of {row['task']}"} for row in rows]
        return rows

    pairs, _ = paired(study(change))
    for row in pairs:
        assert row["trunk_key"] == f"{row['condition']} {row['task']}"
        assert row["branch_key"] == (f"branch of {row['task']}" if row["operator"] == "refresh" else None)


def test_tables_without_keys_pair_as_before(study):
    """Tables that others made name no episode: the column may be missing, in all files or in some."""
    folder = study()
    files = [*folder.glob("trajectories/**/*.parquet"), *folder.glob("forks/**/*.parquet")]
    whole = paired(folder)
    for some in (files[:3], files):
        for path in some:
            if "episode_key" in pq.read_schema(path).names:
                pq.write_table(pq.read_table(path).drop_columns(["episode_key"]), path)
        assert paired(folder) == whole
    assert all(row["trunk_key"] is None for row in whole[0])


def test_a_leftover_file_of_another_config_is_not_read(study):
    folder = study()
    left = folder / "forks/cohort=main/condition=missing/delay=0/operator=refresh/part.parquet"
    write_rows(left, [branch("other", "missing", 0, "refresh", True)], "forks")
    assert len(paired(folder)[0]) == 24


def test_missing_double_and_unplanned_records_are_listed_by_name(study):
    def change(kind, rows):
        first = rows[0]
        if kind == "branch" and (first["condition"], first["delay"], first["operator"]) == ("clean", 1, "refresh"):
            return [rows[0], rows[0], rows[2], rows[2] | {"task": "folder7/trial7"}]
        if kind == "trunk" and first["condition"] == "stale-2":
            return rows[1:]
        if kind == "trunk":
            return [*rows, rows[0] | {"task": "folder8/trial8"}]
        return rows

    with pytest.raises(CheckFailed) as error:
        paired(study(change))
    text = str(error.value)
    assert "unplanned trunk: cohort=main folder8/trial8 clean" in text
    assert "double branch: cohort=main folder0/trial0 clean d=1 refresh" in text
    assert "missing branch: cohort=main folder1/trial1 clean d=1 refresh" in text
    assert "unplanned branch: cohort=main folder7/trial7 clean d=1 refresh" in text
    assert "missing trunk: cohort=main folder0/trial0 stale-2" in text


def test_a_missing_file_is_named(study):
    folder = study()
    gone = folder / "forks/cohort=main/condition=clean/delay=0/operator=none/part.parquet"
    gone.unlink()
    with pytest.raises(CheckFailed, match="operator=none"):
        paired(folder)
    gone.write_bytes(b"PAR1 torn")
    with pytest.raises(BadInput, match="operator=none"):
        paired(folder)


def test_the_plan_may_come_as_settings(study):
    folder = study()
    keys = {"protocol": {"conditions": CONDITIONS, "delays": DELAYS, "operators": OPERATORS}}
    call = ["pairs", "--cohorts", folder / "cohorts.parquet", "--trajectories", folder / "trajectories", "--forks",
            folder / "forks", "--out", folder / "p", "--exclusions", folder / "x"]  # fmt: skip
    run(*call, "--settings", json.dumps(keys))
    assert len(read_rows(folder / "p")) == 24
    run(*call, "--settings", json.dumps(keys), "--delays", "1")
    assert len(read_rows(folder / "p")) == 12
    for options, message in [((), "--conditions: is missing"), (("--settings", "{"), "no valid JSON")]:
        result = CliRunner().invoke(cir, [str(argument) for argument in (*call, *options)])
        assert isinstance(result.exception, BadInput)
        assert message in str(result.exception)
    result = CliRunner().invoke(cir, [str(a) for a in (*call, "--settings", json.dumps(keys), "--delays", "1,x")])
    assert "--delays: expected whole numbers" in str(result.exception)


def test_a_mismatch_drops_the_whole_task_and_infrastructure_only_its_units(study):
    def change(kind, rows):
        first = rows[0]
        if kind == "branch" and (first["condition"], first["delay"], first["operator"]) == ("clean", 1, "refresh"):
            return [rows[0] | {"excluded": "state-mismatch"}, rows[1] | {"exit": "infrastructure"}, rows[2]]
        if kind == "trunk" and first["condition"] == "stale-2":
            return [*rows[:2], rows[2] | {"exit": "infrastructure", "excluded": "infrastructure", "success": False}]
        return rows

    pairs, exclusions = paired(study(change))
    reasons = {}
    for row in exclusions:
        if row["condition"] is not None:
            reasons.setdefault(row["task"], []).append(row["reason"])
    assert sorted(reasons["folder0/trial0"]) == ["state-mismatch"] + ["task-dropped"] * 7
    assert reasons["folder1/trial1"] == ["infrastructure"]
    assert reasons["folder2/trial2"] == ["trunk: infrastructure"] * 4
    assert len(pairs) + 8 + 1 + 4 == 24


def test_null_alterations_are_flagged_or_excluded(study):
    def change(kind, rows):
        if kind == "trunk" and rows[0]["condition"] == "stale-2":
            return [episode(rows[0]["task"], "stale-2", False, shown="a"), *rows[1:]]
        return rows

    folder = study(change)
    pairs, _ = paired(folder)
    assert {(row["task"], row["condition"]) for row in pairs if row["null_alteration"]} == {
        ("folder0/trial0", "stale-2")
    }
    pairs, exclusions = paired(folder, exclude_null=True)
    assert len(pairs) == 20
    assert [row["reason"] for row in exclusions].count("null-alteration") == 4


def test_a_carried_branch_must_have_its_trunks_outcome(study):
    def change(kind, rows):
        if kind == "branch" and rows[0]["condition"] == "stale-2" and rows[0]["operator"] == "refresh":
            return [rows[0] | {"carried_forward": True, "intervened": False}, *rows[1:]]
        return rows

    with pytest.raises(CheckFailed, match="another outcome than its trunk"):
        paired(study(change))


def test_the_command_writes_equal_bytes_twice(study):
    folder = study()
    call = [
        "pairs", "--cohorts", str(folder / "cohorts.parquet"), "--trajectories", str(folder / "trajectories"),
        "--forks", str(folder / "forks"), "--conditions", "clean,stale-2", "--delays", "0,1", "--operators", "none,refresh",
    ]  # fmt: skip
    for name in ("first", "second"):
        result = CliRunner().invoke(
            cir, [*call, "--out", str(folder / name), "--exclusions", str(folder / f"{name}-x")], catch_exceptions=False
        )
        assert result.exit_code == 0
    assert (folder / "first").read_bytes() == (folder / "second").read_bytes()
    assert len(read_rows(folder / "first", "pairs")) == 24
    assert len(read_rows(folder / "first-x", "exclusions")) == 1


def counts_table(groups, minimal=False):
    """Pairs rows of (cohort, n, condition, delay, operator, rescue, harm); the first of each n succeed factually."""
    rows = []
    for cohort, n, condition, delay, operator, rescue, harm in groups:
        for place in range(n):
            y0, ym = (0, 1) if place < rescue else (1, 0) if place < rescue + harm else (1, 1)
            rows.append(
                {"cohort": cohort, "task": f"{cohort}/{place}", "folder": f"{cohort}{place // 2}", "condition": condition,
                 "delay": delay, "operator": operator, "y0": bool(y0), "ym": bool(ym), "factual_success": True,
                 "null_alteration": condition != "clean" and place == n - 1}
            )  # fmt: skip
    return pa.Table.from_pylist(rows)


PUBLISHED = [
    ("fs", 93, "clean", 0, "refresh", 0, 6),
    ("a", 106, "clean", 0, "refresh", 2, 6),
    ("a", 106, "stale-2", 0, "refresh", 17, 10),
    ("mechanism", 67, "stale-2", 4, "refresh", 10, 1),
]
INTERVALS = [(-11.83, -2.15), (-9.43, 0.94), (-2.83, 16.04), (4.48, 22.39)]


def run(*arguments):
    result = CliRunner().invoke(cir, [str(argument) for argument in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize("extra", [[], ["--exact"], ["--seed", "3"]])
def test_published_counts_give_published_intervals_through_the_command(tmp_path, extra):
    write_table(tmp_path / "pairs.parquet", counts_table(PUBLISHED))
    rows = json.loads(run("effects", tmp_path / "pairs.parquet", "--format", "json", *extra))
    found = {
        (row["cohort"], row["condition"]): (round(row["ci_low_pp"], 2), round(row["ci_high_pp"], 2))
        for row in rows
        if row["population"] == "complete"
    }
    assert [found[cohort, condition] for cohort, _, condition, *_ in PUBLISHED] == INTERVALS
    stale = next(row for row in rows if row["condition"] == "stale-2" and row["cohort"] == "a")
    assert (stale["n"], stale["rescue"], stale["harm"], stale["kept_success"]) == (106, 17, 10, 79)
    assert round(stale["mcnemar_p"], 2) == 0.25
    assert stale["sign_flip_p"] == pytest.approx(stale["mcnemar_p"])
    # Two conditions at one delay form the family of that cohort.
    clean = next(row for row in rows if row["condition"] == "clean" and row["cohort"] == "a")
    assert clean["holm_p"] == stale["holm_p"] == pytest.approx(2 * stale["mcnemar_p"])


def test_pooled_rows_move_a_tasks_units_together(tmp_path):
    groups = [("a", 40, "stale-2", d, m, 8, 2) for d in (0, 1, 2) for m in ("none", "refresh")]
    write_table(tmp_path / "pairs.parquet", counts_table(groups))
    single = effects(tmp_path / "pairs.parquet", ["cohort", "population", "condition", "delay", "operator"])
    pooled = effects(tmp_path / "pairs.parquet", ["cohort", "condition"])
    assert len(pooled) == 1
    row = pooled[0]
    # The A/A arm is left out; the three delays are copies of each other, so nothing is gained by pooling them.
    assert (row["n"], row["tasks"], row["rescue"], row["harm"]) == (120, 40, 24, 6)
    assert "population" not in row
    one = next(r for r in single if r["operator"] == "refresh" and r["delay"] == 0 and r["population"] == "complete")
    assert (row["ci_low_pp"], row["ci_high_pp"]) == pytest.approx((one["ci_low_pp"], one["ci_high_pp"]), abs=2.6)
    assert row["aa_flip_rate"] == one["aa_flip_rate"] == 10 / 40
    # Three copies of a task's unit are no more evidence than one: McNemar of the units would say so, the sign-flip does not.
    assert row["mcnemar_p"] < row["sign_flip_p"] == row["holm_p"] == pytest.approx(one["mcnemar_p"])
    assert sum(row[cell] for cell in ("rescue", "harm", "kept_success", "unchanged_failure")) == row["n"]


def test_populations_clusters_and_null_alterations(tmp_path):
    table = counts_table([("a", 20, "stale-2", 0, "refresh", 5, 1)])
    solved = pa.array([place < 10 for place in range(20)])
    table = table.set_column(table.column_names.index("factual_success"), "factual_success", solved)
    write_table(tmp_path / "pairs.parquet", table)
    rows = {row["population"]: row for row in effects(tmp_path / "pairs.parquet")}
    assert (rows["complete"]["n"], rows["factual-success"]["n"]) == (20, 10)
    assert rows["complete"]["null_alterations"] == 1
    assert effects(tmp_path / "pairs.parquet", without_null_alterations=True)[0]["n"] == 19
    folders = effects(tmp_path / "pairs.parquet", interval=Interval(cluster="folder"))[0]
    assert folders["effect_pp"] == rows["complete"]["effect_pp"]
    assert folders["ci_high_pp"] - folders["ci_low_pp"] > rows["complete"]["ci_high_pp"] - rows["complete"]["ci_low_pp"]


def test_sensitivities_stand_beside_each_row_and_equal_their_own_calls(tmp_path):
    write_table(tmp_path / "pairs.parquet", counts_table([("a", 21, "stale-2", 0, "refresh", 5, 1)]))
    row = effects(tmp_path / "pairs.parquet")[0]
    folders = effects(tmp_path / "pairs.parquet", interval=Interval(cluster="folder"))[0]
    altered = effects(tmp_path / "pairs.parquet", without_null_alterations=True)[0]
    assert (row["ci_folder_low_pp"], row["ci_folder_high_pp"]) == (folders["ci_low_pp"], folders["ci_high_pp"])
    assert (folders["ci_folder_low_pp"], folders["ci_folder_high_pp"]) == (folders["ci_low_pp"], folders["ci_high_pp"])
    for name in ("n", "rescue", "harm", "effect_pp", "ci_low_pp", "ci_high_pp"):
        assert row[f"no_null_{name}"] == altered[name], name
    assert row["no_null_n"] == row["n"] - row["null_alterations"] == 20
    # Folders hold two tasks, the last one: their exact interval is what resampling converges to.
    exact = effects(tmp_path / "pairs.parquet", interval=Interval(cluster="folder", exact=True))[0]
    assert (exact["ci_low_pp"], exact["ci_high_pp"]) == pytest.approx(
        (folders["ci_low_pp"], folders["ci_high_pp"]), abs=1.5
    )
    text = run("effects", tmp_path / "pairs.parquet", "--sensitivity")
    assert max(len(line) for line in text.splitlines()) <= 80
    assert f"[{row['ci_folder_low_pp']:.2f}, {row['ci_folder_high_pp']:.2f}]" in text


def test_a_sensitivity_without_an_exact_interval_does_not_stop_its_row(tmp_path):
    table = counts_table([("a", 2_500, "stale-2", 0, "refresh", 500, 100)])
    folders = pa.array([f"f{place}" if place > 100 else "large" for place in range(2_500)])
    write_table(tmp_path / "pairs.parquet", table.set_column(table.column_names.index("folder"), "folder", folders))
    row = effects(tmp_path / "pairs.parquet", interval=Interval(resamples=500, exact=True))[0]
    assert row["ci_folder_low_pp"] < row["effect_pp"] < row["ci_folder_high_pp"]
    with pytest.raises(BadInput, match="--exact: the exact distribution has"):
        effects(tmp_path / "pairs.parquet", interval=Interval(cluster="folder", exact=True))


def test_sensitivities_are_null_where_a_table_cannot_tell(tmp_path):
    table = counts_table([("a", 6, "stale-2", 0, "refresh", 2, 1)]).drop_columns(["folder", "null_alteration"])
    write_table(tmp_path / "pairs.parquet", table)
    row = effects(tmp_path / "pairs.parquet")[0]
    assert row["n"] == 6
    sensitivities = [name for name in row if name.startswith(("ci_folder", "no_null", "null_"))]
    assert len(sensitivities) == 9
    assert all(row[name] is None for name in sensitivities)
    run("effects", tmp_path / "pairs.parquet", "--out", tmp_path / "effects.parquet")
    run("effects", tmp_path / "pairs.parquet", "--sensitivity")
    only_null = counts_table([("a", 6, "stale-2", 0, "refresh", 2, 1)])
    only_null = only_null.set_column(
        only_null.column_names.index("null_alteration"), "null_alteration", pa.array([True] * 6)
    )
    write_table(tmp_path / "pairs.parquet", only_null)
    row = effects(tmp_path / "pairs.parquet")[0]
    assert (row["no_null_n"], row["no_null_effect_pp"], row["no_null_ci_low_pp"]) == (0, None, None)


def test_a_contrast_is_paired_inside_tasks(tmp_path):
    groups = [("a", 30, "stale-2", 1, "refresh", 6, 0), ("a", 28, "clean", 1, "refresh", 0, 4)]
    write_table(tmp_path / "pairs.parquet", counts_table(groups))
    text = run(
        "contrast", tmp_path / "pairs.parquet", "--condition", "stale-2", "--versus", "clean", "--format", "json"
    )
    row = next(row for row in json.loads(text) if row["population"] == "complete")
    # 28 tasks have both; tasks 0-3 gain 2 each, tasks 4-5 gain 1.
    assert row["n"] == 28
    assert row["effect_pp"] == pytest.approx(100 * 10 / 28)
    assert row["effect_pp"] == pytest.approx(row["effect_condition_pp"] - row["effect_versus_pp"])
    assert row["sign_flip_p"] == pytest.approx(2 / 2**6)
    assert row["ci_low_pp"] > 0
    exact = contrast(tmp_path / "pairs.parquet", "stale-2", "clean", interval=Interval(exact=True))[0]
    assert exact["ci_low_pp"] == pytest.approx(row["ci_low_pp"], abs=100 / 28)


def test_printed_tables_fit_a_terminal(tmp_path):
    groups = [("independent", 100, "stale-2", d, m, 17, 10) for d in (0, 4) for m in ("none", "content-ablated")]
    groups += [("independent", 100, "missing", 0, "content-ablated", 100, 0)]
    groups += [("independent", 100, "clean", d, "content-ablated", 0, 100) for d in (0, 4)]
    write_table(tmp_path / "pairs.parquet", counts_table(groups))
    text = run("effects", tmp_path / "pairs.parquet")
    text += run("contrast", tmp_path / "pairs.parquet", "--condition", "stale-2", "--versus", "clean")
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "…" not in text
    assert "-100.00" in text
    rows = list(csv.DictReader(io.StringIO(run("effects", tmp_path / "pairs.parquet", "--format", "csv"))))
    assert len(rows) == 2 * 7
    assert rows[0]["aa_flip_rate"] in ("", "0.27")


def test_effects_written_as_a_table(tmp_path):
    write_table(tmp_path / "pairs.parquet", counts_table(PUBLISHED))
    run("effects", tmp_path / "pairs.parquet", "--out", tmp_path / "effects.parquet", "--by", "cohort,condition")
    assert set(read_rows(tmp_path / "effects.parquet")[0]) >= {"cohort", "condition", "effect_pp", "tasks"}
    run("effects", tmp_path / "pairs.parquet", "--out", tmp_path / "effects.parquet")
    assert len(read_rows(tmp_path / "effects.parquet", "effects")) == 8


def test_whole_number_outcomes_serve_and_few_columns_suffice(tmp_path):
    table = pa.table({"task": ["a", "b", "c"], "condition": ["clean"] * 3, "y0": [0, 1, 1], "ym": [1, 1, 0]})
    write_table(tmp_path / "pairs.parquet", table)
    rows = effects(tmp_path / "pairs.parquet", ["condition"])
    assert [(row["rescue"], row["harm"], row["n"], row["aa_flip_rate"]) for row in rows] == [(1, 1, 3, None)]


@pytest.mark.parametrize(
    ("columns", "by", "message"),
    [
        ({"y0": [1], "ym": [2]}, "condition", "not 0 or 1"),
        ({"y0": [1], "ym": pa.array([None], pa.int64())}, "condition", "not 0 or 1"),
        ({"y0": ["yes"], "ym": ["no"]}, "condition", "booleans"),
        ({"y0": [1]}, "condition", "lacks the column"),
        ({"y0": [1], "ym": [1]}, "cohort", "lacks the column"),
        ({"y0": [1], "ym": [1]}, "conditions", "no such key"),
        ({"task": ["a", "a"], "condition": ["clean"] * 2, "y0": [1, 1], "ym": [1, 1]}, "condition", "stands 2 times"),
    ],
)
def test_unusable_tables_have_a_clear_end(tmp_path, columns, by, message):
    write_table(tmp_path / "pairs.parquet", pa.table({"task": ["a"], "condition": ["clean"]} | columns))
    result = CliRunner().invoke(cir, ["effects", str(tmp_path / "pairs.parquet"), "--by", by])
    assert isinstance(result.exception, BadInput)
    assert message in str(result.exception)


def test_empty_tables_and_absent_conditions_have_a_clear_end(tmp_path):
    table = counts_table([("a", 3, "clean", 0, "refresh", 1, 0)])
    write_table(tmp_path / "pairs.parquet", table.slice(0, 0))
    with pytest.raises(BadInput, match="holds no rows"):
        effects(tmp_path / "pairs.parquet")
    write_table(tmp_path / "pairs.parquet", table)
    with pytest.raises(BadInput, match=r"no task has both stale-2 and clean.*conditions clean"):
        contrast(tmp_path / "pairs.parquet", "stale-2", "clean")
