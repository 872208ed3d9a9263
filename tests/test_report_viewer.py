"""What the fork viewer is given: the right steps of the right episodes, a fixed sample of a large study, safe bytes."""

import base64
import gzip
import json
import random
import re
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from report_study import HOSTILE, HUGE, inputs_of, make_episodes, make_study, options

from pipeline.errors import BadInput, CheckFailed
from pipeline.records.tables import read_rows, write_rows
from pipeline.report.command import report
from pipeline.report.episodes import LONGEST, viewer_data
from pipeline.report.links import Linked, episodes
from pipeline.report.sampling import EACH, ordered, unit_key
from pipeline.report.treated import treated


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("viewer")
    paths = make_episodes(folder, make_study(folder, size=8, held_out=4))
    inputs = inputs_of(paths)
    answers = treated(inputs.router, inputs.decisions, inputs.oof)
    return SimpleNamespace(paths=paths, folder=folder, inputs=inputs, answers=answers, pairs=list(inputs.pairs))


def packed(study, pairs=None, **limits):
    folders = (Path(study.paths["trajectories"]), Path(study.paths["forks"]))
    return viewer_data(study.pairs if pairs is None else pairs, *folders, study.answers, "refresh", **limits)


def unpacked(data):
    return json.loads(gzip.decompress(base64.b64decode(data.packed)))


def branches_of(data):
    """Units of the viewer's JSON with their texts, read by the format's description alone."""
    content = unpacked(data)
    texts = content["texts"]

    def read(steps):
        for kind, output, action, shown, true in steps:
            said, seen = texts[output], texts[shown]
            yield (
                content["kinds"][kind],
                said,
                said if action == -1 else texts[action],
                seen,
                seen if true == -1 else texts[true],
            )

    for trunk, delay, operator, cell, carried, null, fired, at, leaves, steps in content["units"]:
        cohort, task, condition, success, _, altered_at, before, moments, when, factual = content["trunks"][trunk]
        yield SimpleNamespace(
            key=(texts[cohort], texts[task], texts[condition], delay, texts[operator]), cell=content["cells"][cell],
            carried=carried, null=null, fired=fired, at=at, exit=texts[leaves], steps=list(read(steps)), y0=success,
            altered_at=altered_at, trunk=list(read(before)), moments=moments, when=when, factual=factual,
        )  # fmt: skip


def cut(text):
    return text if text is None or len(text) <= LONGEST else text[:LONGEST]


def test_every_branch_stands_in_the_data_with_its_own_steps_and_those_of_its_trunk(study):
    data = packed(study)
    assert (data.branches, data.of) == (len(study.pairs), len(study.pairs))
    found = {unit.key: unit for unit in branches_of(data)}
    assert found.keys() == {unit_key(pair) for pair in study.pairs}
    for pair in random.Random(1).sample(study.pairs, 60):
        cohort, task, e, d, m = unit_key(pair)
        unit = found[cohort, task, e, d, m]
        folder = Path(study.paths["forks"], f"cohort={cohort}", f"condition={e}", f"delay={d}", f"operator={m}")
        branch = next(row for row in read_rows(folder / "part.parquet") if row["task"] == task)
        trunk_path = Path(study.paths["trajectories"], f"cohort={cohort}", f"condition={e}", "trunk.parquet")
        trunk = next(row for row in read_rows(trunk_path) if row["task"] == task)
        names = ("kind", "output", "action", "observation_shown", "observation_true")
        for steps, shown in ((branch["steps"], unit.steps), (trunk["steps"], unit.trunk)):
            assert len(steps) == len(shown)
            for step, parts in zip(steps, shown, strict=True):
                for name, part in zip(names, parts, strict=True):
                    assert step[name] == part or (len(step[name]) > LONGEST and part.startswith(cut(step[name])))
        assert (unit.cell, unit.y0, unit.factual) == (pair["cell"], pair["y0"], pair["factual_success"])
        assert unit.null == pair["null_alteration"]
        # The fork stands right after the reply to action k + d.
        acts = [place for place, step in enumerate(trunk["steps"]) if step["kind"] == "act"]
        assert unit.at == min(acts[3 + d - 1] + 1 if len(acts) >= 3 + d else 99, len(trunk["steps"]))


def test_the_router_fires_where_its_thresholds_are_first_passed(study):
    limits = json.loads(Path(study.paths["router"]).read_text())["thresholds"]
    fired = {unit.key for unit in branches_of(packed(study)) if unit.fired}
    assert fired
    for unit in branches_of(packed(study)):
        passing = [
            delay for delay, p_err, p_0, _, u in unit.moments
            if p_err >= limits["alpha"] and 1 - p_0 >= limits["beta"] and u >= limits["gamma"]
        ]  # fmt: skip
        assert unit.when == (passing[0] if passing else None)
        assert bool(unit.fired) == (unit.key[4] == "refresh" and unit.key[3] == unit.when)


def test_a_sample_holds_some_of_every_cell_then_what_changed(study):
    changed = [pair for pair in study.pairs if pair["cell"] in ("rescue", "harm")]
    names = ("cohort", "condition", "delay", "operator", "cell")
    cells = Counter(tuple(pair[name] for name in names) for pair in study.pairs)
    first = sum(min(EACH, count) for count in cells.values())
    queue = ordered(study.pairs, set())
    head = Counter(tuple(pair[name] for name in names) for pair in queue[:first])
    assert head == {cell: min(EACH, count) for cell, count in cells.items()}
    rest = [pair["cell"] in ("rescue", "harm") for pair in queue[first:]]
    assert rest == sorted(rest, reverse=True)
    assert sum(pair in changed for pair in queue) == len(changed)
    shuffled = random.Random(3).sample(study.pairs, len(study.pairs))
    assert ordered(shuffled, set()) == queue


def test_the_same_study_gives_the_same_bytes_in_any_order_of_rows(study):
    shuffled = random.Random(4).sample(study.pairs, len(study.pairs))
    assert packed(study, shuffled) == packed(study)
    assert packed(study, shuffled, most=40) == packed(study, most=40)


def test_a_limit_of_bytes_is_kept(study):
    whole = packed(study)
    small = packed(study, most_bytes=len(whole.packed) // 2)
    assert len(small.packed) <= len(whole.packed) // 2
    assert 1 <= small.branches < whole.branches
    assert small.of == whole.of
    assert len(unpacked(small)["units"]) == small.branches


def test_text_without_end_is_cut_and_hostile_text_cannot_leave_its_element(study):
    data = packed(study)
    assert re.fullmatch(r"[A-Za-z0-9+/=]+", data.packed)
    texts = unpacked(data)["texts"]
    long = [text for text in texts if text and HOSTILE in text]
    assert long
    assert all(len(text) < LONGEST + 40 and text.endswith("more characters]") for text in long)
    assert all(HUGE not in text for text in texts if text)
    assert len(texts) == len(set(texts))


def test_a_pair_without_its_branch_is_refused_by_name(study, tmp_path):
    folder = tmp_path / "forks"
    (folder / "a").parent.mkdir()
    for path in Path(study.paths["forks"]).rglob("part.parquet"):
        copy = folder / path.relative_to(study.paths["forks"])
        copy.parent.mkdir(parents=True)
        rows = read_rows(path, "forks")
        write_rows(copy, rows[1:] if "delay=1/operator=refresh" in str(path) else rows, "forks")
    with pytest.raises(CheckFailed, match=r"holds no recorded branch of .*; run the fork and pairs stages again"):
        viewer_data(study.pairs, Path(study.paths["trajectories"]), folder, study.answers, "refresh")
    with pytest.raises(BadInput, match="no such file"):
        viewer_data(study.pairs, Path(study.paths["trajectories"]), tmp_path / "none", study.answers, "refresh")


@pytest.mark.parametrize(("left_out", "words"), [("forks", "belong together"), ("oof", "belong together")])
def test_half_of_the_options_is_refused(study, left_out, words, tmp_path):
    paths = {name: path for name, path in study.paths.items() if name != left_out}
    result = CliRunner().invoke(report, options(paths, tmp_path / "index.html"))
    assert isinstance(result.exception, BadInput)
    assert words in str(result.exception)


def test_the_page_says_what_it_holds_and_links_counts_only_where_it_can(study, tmp_path):
    result = CliRunner().invoke(report, options(study.paths, tmp_path / "with/index.html"))
    assert result.exit_code == 0, result.output
    text = (tmp_path / "with/index.html").read_text()
    assert f"The page holds all {len(study.pairs):,} branches" in text
    assert text.count('class="episodes"') > 100
    plain = {name: path for name, path in study.paths.items() if name not in ("forks", "trajectories")}
    CliRunner().invoke(report, options(plain, tmp_path / "without/index.html"))
    text = (tmp_path / "without/index.html").read_text()
    assert 'class="episodes"' not in text
    assert "<script" not in text


def test_nothing_links_to_nothing():
    assert not isinstance(episodes("0", cell="harm"), Linked)
    assert not isinstance(episodes("0/48 (0.0%)", cell="harm"), Linked)
    cell = episodes("3", condition="a&b=c", cell="harm")
    assert (cell, cell.href) == ("3", "#forks?condition=a%26b%3Dc&cell=harm")
