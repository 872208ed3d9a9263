"""The page, its figures and the printed summary, from a synthetic study with the tables of a real one."""

import csv
import html
import json
import re
import shutil
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from report_study import CONDITIONS, HOSTILE, OPERATORS, POLICIES, cell_of, inputs_of, make_study, options

from pipeline.errors import BadInput
from pipeline.outcomes.effects import KEYS, Interval, effects
from pipeline.records.files import write_json
from pipeline.records.tables import read_rows, write_rows
from pipeline.report.command import report
from pipeline.report.page import render, write_page
from pipeline.report.tables import policy_table


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A study, its page's folder and what the command printed, made once for the tests that only read."""
    folder = tmp_path_factory.mktemp("study")
    paths = make_study(folder)
    result = CliRunner().invoke(report, options(paths, folder / "report/index.html"))
    assert result.exit_code == 0, result.output
    text = (folder / "report/index.html").read_text()
    return SimpleNamespace(paths=paths, folder=folder / "report", page=text, printed=result.stdout, rows=Rows.of(text))


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return make_study(tmp_path_factory.mktemp("small"), size=6, held_out=3)


@pytest.fixture
def study(small, tmp_path):
    """A copy of a small study for a test that changes it."""
    return {name: shutil.copy(path, tmp_path) for name, path in small.items()}


class Rows(HTMLParser):
    """The tables of a page: caption -> rows of cell texts; every attribute that names a resource; every tag."""

    @classmethod
    def of(cls, text):
        parser = cls()
        parser.feed(text)
        return parser

    def __init__(self):
        super().__init__()
        self.tables, self.links, self.tags, self.stack, self.caption = {}, [], Counter(), [], None

    def handle_starttag(self, tag, attributes):
        self.tags[tag] += 1
        self.links += [
            (tag, name, value) for name, value in attributes if name in ("src", "href", "srcset", "data", "xlink:href")
        ]
        self.links += [(tag, name, value) for name, value in attributes if name.startswith("on")]
        if tag == "caption":
            self.text = ""
        if tag == "tr":
            self.row = []
        if tag in ("td", "th"):
            self.text = ""

    def handle_data(self, data):
        self.text = getattr(self, "text", "") + data

    def handle_endtag(self, tag):
        if tag == "caption":
            self.caption = self.text
            self.tables[self.caption] = []
        elif tag in ("td", "th"):
            self.row.append(self.text)
        elif tag == "tr":
            self.tables[self.caption].append(self.row)


def percent(count, of):
    return f"{count}/{of} ({100 * count / of:.1f}%)"


def points(value):
    return f"{value:+.2f}".replace("-", "−") if abs(value) >= 0.005 else "0.00"


@pytest.mark.parametrize("cohort", ["main", "evaluation"])
@pytest.mark.parametrize(
    ("population", "words"), [("complete", "all feasible tasks"), ("factual-success", "tasks that succeed unaltered")]
)
def test_every_effect_stands_in_the_page_as_counted_from_the_pairs(made, cohort, population, words):
    units, whole = Counter(), Counter()
    for pair in read_rows(made.paths["pairs"]):
        if pair["cohort"] == cohort and (population == "complete" or pair["factual_success"]):
            units[pair["operator"], pair["condition"], pair["delay"], pair["cell"]] += 1
            whole[pair["operator"], pair["condition"], pair["delay"]] += 1
    shown = {(row[0], row[1], int(row[2])): row[3:] for row in made.rows.tables[f"{cohort}, {words}"][1:]}
    assert shown.keys() == whole.keys()
    for key, n in whole.items():
        cells = [units[*key, cell] for cell in ("rescue", "harm", "kept-success", "unchanged-failure")]
        assert shown[key][:6] == [
            str(n),
            *(percent(count, n) for count in cells),
            points(100 * (cells[0] - cells[1]) / n),
        ]
        assert shown[key][-1] == percent(0, n)


def test_intervals_and_tests_are_those_of_the_effects_table(made):
    for row in read_rows(made.paths["effects"], "effects"):
        words = "all feasible tasks" if row["population"] == "complete" else "tasks that succeed unaltered"
        key = [row["operator"], row["condition"], str(row["delay"])]
        cells = next(cells for cells in made.rows.tables[f"{row['cohort']}, {words}"] if cells[:3] == key)
        low, high = (f"{row[name]:.2f}".replace("-", "−") for name in ("ci_low_pp", "ci_high_pp"))
        assert cells[9].replace("−0.00", "0.00") == f"[{low}, {high}]".replace("−0.00", "0.00")
        assert cells[10] == (
            "1"
            if row["mcnemar_p"] >= 0.9995
            else "< .001"
            if row["mcnemar_p"] < 0.0005
            else f"{row['mcnemar_p']:.3f}"[1:]
        )


def test_every_policy_stands_in_the_page(made):
    summary = json.loads(Path(made.paths["evaluation"]).read_text())["policies"]
    shown = {row[0]: row[1:] for row in made.rows.tables["Policies on held-out tasks"][1:]}
    assert list(shown) == POLICIES
    for policy in summary:
        n, clean = policy["episodes"], policy["by_condition"][0]
        low, high = policy["ci95_pp"]
        assert shown[policy["policy"]][:-1] == [
            percent(policy["success"], n), points(policy["gain_pp"]), f"[{low:.2f}, {high:.2f}]".replace("-", "−"),
            str(policy["rescue"]), str(policy["harm"]), percent(policy["interventions"], n), percent(clean["harm"], clean["tasks"]),
        ]  # fmt: skip
    by_condition = made.rows.tables["Policies by what was shown"][1:]
    assert len(by_condition) == len(POLICIES) * len(CONDITIONS)


def test_first_screen_says_what_was_found_and_what_it_cannot_support(made):
    start = made.page.index('<section id="answer">')
    first = html.unescape(made.page[start : made.page.index("</section>", start)])
    rows = [
        row for row in read_rows(made.paths["effects"]) if row["cohort"] == "main" and row["population"] == "complete"
    ]
    for row in rows:
        if row["operator"] == "refresh" and row["condition"] in ("clean", "stale-2"):
            assert points(row["effect_pp"]) in first
    cir = json.loads(Path(made.paths["evaluation"]).read_text())["policies"][-1]
    assert f"gained {points(cir['gain_pp'])} points over never doing so" in first
    assert "8 held-out tasks (32 episodes)" in first
    assert f"({percent(0, 448)}" not in first
    assert f"ended unlike their trunk in {percent(0, 28 * 16)} cases" in first
    assert "Left out: 6 candidate tasks of 34 and 0 units after forking" in first
    assert "not a language model" in first
    assert not re.search(r"significan|\bproves?\b|\bworks\b", first)


def test_cohorts_exclusions_thresholds_and_coefficients_are_listed(made):
    cohorts = {row[0]: row for row in made.rows.tables["Cohorts"][1:]}
    assert cohorts["main"][3:7] == ["20", "23", "20", "3"]
    reasons = Counter(row["reason"] for row in read_rows(made.paths["exclusions"]))
    shown = Counter()
    for _, _, reason, count in made.rows.tables["Not in the pairs, and why"][1:]:
        shown[reason] += int(count)
    assert shown == reasons
    thresholds = {row[0]: row[-1] for row in made.rows.tables["Thresholds"][1:]}
    assert thresholds == {
        "alpha": "0.731", "beta": "0.052", "gamma": "0", "epsilon": "0.02", "sequential-anomaly": "0.901", "rate-matched-anomaly": "never",
    }  # fmt: skip
    router = json.loads(Path(made.paths["router"]).read_text())
    coefficients = {row[0]: row[1] for row in made.rows.tables["Coefficients of the three logistic regressions"][2:]}
    weights = router["models"]["p_err"]["coefficients"]
    assert coefficients == {
        name[2:]: f"{weight:+.3f}".replace("-", "−") for name, weight in zip(router["features"], weights, strict=True)
    }
    assert "ab" * 32 in made.page


def test_hostile_texts_stay_text(made):
    assert "<script" not in made.page
    assert "<img" not in made.page
    assert not [link for link in made.rows.links if link[1].startswith("on")]
    assert html.escape(HOSTILE, quote=False).split("&")[0] in made.page
    assert HOSTILE in [row[2] for row in made.rows.tables["Not in the pairs, and why"]]
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in made.page[made.page.index('<section id="config">') :]


def test_a_hostile_study_name_is_refused_and_would_be_escaped(study):
    inputs = inputs_of(study)
    renamed = SimpleNamespace(**{name: getattr(inputs, name) for name in vars(inputs)})
    object.__setattr__(inputs, "study", inputs.study.model_copy(update={"study": HOSTILE}))
    text = render(inputs, [], [])
    assert "<script" not in text
    assert "&lt;script&gt;" in text[: text.index("</h1>")]
    write_json(study["study"], dict(renamed.config) | {"study": HOSTILE})
    with pytest.raises(BadInput, match="study"):
        inputs_of(study)


def test_page_loads_nothing_from_a_network_and_links_only_to_its_own_files(made):
    assert made.rows.tags["script"] == made.rows.tags["link"] == made.rows.tags["iframe"] == made.rows.tags["base"] == 0
    assert not re.search(r"url\((?!#)|@import|https?:(?!//www\.w3\.org/(2000/svg|1999/xlink)\")", made.page)
    for _, _, target in made.rows.links:
        if target.startswith("#"):
            assert f'id="{target[1:]}"' in made.page
        else:
            assert (made.folder / target).is_file(), target


def test_ids_are_unique_and_every_reference_has_its_id(made):
    ids = re.findall(r'\bid="([^"]+)"', made.page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r"url\(#([^)]+)\)", made.page)) <= set(ids)


def test_figures_stand_as_files_with_the_data_they_show(made):
    rows = read_rows(made.paths["effects"], "effects")
    drawings = sorted(path.stem for path in (made.folder / "figures").glob("*.svg"))
    assert drawings == sorted(path.stem for path in (made.folder / "figures").glob("*.csv"))
    wanted = {f"four-cells-main-{p}-{m}" for p in ("complete", "factual-success") for m in OPERATORS}
    wanted |= {f"effects-main-{p}-{e}" for p in ("complete", "factual-success") for e in CONDITIONS}
    wanted |= {f"four-cells-evaluation-complete-{m}" for m in OPERATORS} | {
        f"effects-evaluation-complete-{e}" for e in CONDITIONS
    }
    further = {f"contrasts-main-{p}" for p in ("complete", "factual-success")} | {"router-coefficients"}
    assert set(drawings) == wanted | further | {"policies-gain", "policies-interventions", "policies-clean-harm"}
    for name in wanted:
        with open(made.folder / "figures" / f"{name}.csv", newline="") as file:
            shown = list(csv.DictReader(file))
        first = shown[0]
        varied = "operator" if name.startswith("four-cells") else "condition"
        same = [
            row for row in rows
            if all(row[key] == first[key] for key in ("cohort", "population", varied))
        ]  # fmt: skip
        expected = {tuple(str(row[column]) for column in first) for row in same}
        assert {tuple(row.values()) for row in shown} == expected
        assert (made.folder / "figures" / f"{name}.svg").read_text() in made.page
    with open(made.folder / "figures/policies-gain.csv", newline="") as file:
        gains = {row["policy"]: float(row["gain_pp"]) for row in csv.DictReader(file)}
    assert gains == {
        row["policy"]: row["gain_pp"] for row in json.loads(Path(made.paths["evaluation"]).read_text())["policies"]
    }


def test_bars_carry_their_counts(made):
    for row in read_rows(made.paths["effects"], "effects"):
        if row["cohort"] == "main" and row["operator"] == "refresh":
            drawing = (made.folder / f"figures/four-cells-main-{row['population']}-refresh.svg").read_text()
            assert f">+{row['rescue']}</text>" in drawing
            assert f">−{row['harm']}</text>" in drawing


def test_same_inputs_give_the_same_bytes(made, tmp_path):
    write_page(inputs_of(made.paths), tmp_path / "index.html")
    names = sorted(path.relative_to(made.folder) for path in made.folder.rglob("*") if path.is_file())
    assert names == sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file())
    for name in names:
        assert (made.folder / name).read_bytes() == (tmp_path / name).read_bytes(), name


def test_printed_summary_fits_a_terminal_and_names_the_page(made):
    lines = made.printed.splitlines()
    assert max(map(len, lines[:-1])) <= 80
    assert "main · complete · refresh" in lines[0]
    assert lines[-1] == f"report: {made.folder / 'index.html'}"
    for name in POLICIES:
        assert any(line.startswith(name) for line in lines)


def test_json_carries_the_rows(study, tmp_path):
    result = CliRunner().invoke(report, options(study, tmp_path / "out/index.html", "--format", "json"))
    printed = json.loads(result.stdout)
    wanted = [
        row for row in read_rows(study["effects"], "effects")
        if (row["cohort"], row["population"], row["operator"]) == ("main", "complete", "refresh")
    ]  # fmt: skip
    assert sorted(printed["effects"], key=str) == sorted(wanted, key=str)
    assert printed["policies"] == json.loads(Path(study["evaluation"]).read_text())["policies"]
    assert Path(printed["page"]).is_file()


def test_no_exclusion_at_all_is_said_and_no_error(study):
    write_rows(study["exclusions"], [], "exclusions")
    assert Rows.of(render(inputs_of(study), [], [])).tables["Not in the pairs, and why"][1:] == [["none"]]


def test_held_out_episodes_that_could_not_be_evaluated_are_counted(study):
    summary = json.loads(Path(study["evaluation"]).read_text())
    write_json(study["evaluation"], summary | {"planned": {"episodes": 12}, "evaluable": {"episodes": 10}})
    assert "2 held-out episodes of 12 planned lack a recorded branch" in render(inputs_of(study), [], [])


def test_an_interval_without_width_is_no_precision(study):
    pairs = [row | {"ym": row["y0"], "cell": cell_of(row["y0"], row["y0"])} for row in read_rows(study["pairs"])]
    write_rows(study["pairs"], pairs, "pairs")
    write_rows(study["effects"], effects(study["pairs"], KEYS, Interval(resamples=200)), "effects")
    assert "With 6 tasks the intervals under alteration have no width, as no task changed." in render(
        inputs_of(study), [], []
    )


def test_flips_of_the_a_a_arm_are_counted_on_the_first_screen(study):
    pairs = read_rows(study["pairs"])
    place = next(place for place, row in enumerate(pairs) if row["operator"] == "none" and row["cohort"] == "main")
    row = pairs[place]
    pairs[place] = row | {"ym": not row["y0"], "cell": cell_of(row["y0"], not row["y0"])}
    write_rows(study["pairs"], pairs, "pairs")
    write_rows(study["effects"], effects(study["pairs"], KEYS, Interval(resamples=200)), "effects")
    text = render(inputs_of(study), [], [])
    assert f"ended unlike their trunk in {percent(1, 9 * 16)} cases" in text
    flips = [cells for cells in Rows.of(text).tables["main, all feasible tasks"] if cells[-1] == percent(1, 6)]
    assert {cells[0] for cells in flips} == set(OPERATORS)


def test_counts_of_a_policy_that_draws_are_shown_as_expectations(study):
    summary = json.loads(Path(study["evaluation"]).read_text())
    drawn = summary["policies"][-1] | {"policy": "random", "rescue": 1.26, "interventions": 2.04, "sign_flip_p": None}
    write_json(study["evaluation"], summary | {"policies": [*summary["policies"], drawn]})
    table = policy_table(inputs_of(study))
    row = next(row for row in table.rows if row[0] == "random")
    assert (row[4], row[-1]) == ("1.3", "–")
    assert row[6].startswith("2.0/12 ")
    assert "expectations" in table.note


def test_a_router_that_never_intervenes_is_said_aloud(study):
    router = json.loads(Path(study["router"]).read_text())
    write_json(study["router"], router | {"never": True, "thresholds": {"alpha": None, "beta": None, "gamma": None}})
    text = render(inputs_of(study), [], [])
    assert "it never intervenes" in text
    assert {row[0]: row[-1] for row in Rows.of(text).tables["Thresholds"]}["alpha"] == "never"
