"""Joint-outcome models, certified alphas and operator choice against independent computations; leaks and edges."""

import json
import sys
from fractions import Fraction
from itertools import product
from math import comb

import numpy as np
import pytest
from click.testing import CliRunner

from pipeline.cli import cir
from pipeline.errors import BadInput
from pipeline.records.schemas import decisions_schema
from pipeline.records.tables import write_rows
from pipeline.router.certify import LADDER, certify, clean_tasks_needed, exceeds_p
from pipeline.router.fit import FitSettings, fit
from pipeline.router.joint import Moment, best_operator
from pipeline.router.model import Router
from pipeline.router.policy import Candidate, DecisionEpisode, Thresholds, counts, harm_limit
from pipeline.router.regression import folds_of, held_out_predictions
from pipeline.router.thresholds import gamma_values, grid_values
from pipeline.router.training import training


def table(tasks=40, seed=0, others=("replan-only",), clean_harm=0.1):
    """Decisions with signal: x_a tells the condition, x_b tells for which tasks refresh helps and replan-only does not."""
    rng = np.random.default_rng(seed)
    rows = []
    for task, condition in product(range(tasks), ("clean", "stale-2")):
        wrong, suits = condition != "clean", task % 2 == 0
        y0 = bool(not wrong or rng.random() < 0.5)
        for delay in (1, 2, 4):
            live = delay < 4 or task % 5 > 0
            works = {"ym": suits, "ym_replan-only": not suits}
            chance = {name: (0.9 if works.get(name, suits) else 0.3) if wrong else 1 - clean_harm for name in works}
            made = {name: bool(y0 if not live else rng.random() < share) for name, share in chance.items()}
            rows.append(
                {"cohort": "main", "task": f"f{task // 2:03}/t{task:03}", "folder": f"f{task // 2:03}",
                 "condition": condition, "delay": delay, "live": live, "factual_success": True, "y0": y0, "ym": made["ym"],
                 **{f"ym_{name}": made["ym_replan-only"] for name in others},
                 "x_a": float(rng.normal(2.0 * wrong)) if live else None,
                 "x_b": float(rng.normal(1.5 * suits)) if live else None}
            )  # fmt: skip
    return rows


def written(path, rows):
    others = [name.removeprefix("ym_") for name in rows[0] if name.startswith("ym_")]
    write_rows(path, rows, decisions_schema([name for name in rows[0] if name.startswith("x_")], others))
    return path


def fitted(folder, rows, **options):
    data, notes = training(written(folder / "d.parquet", rows), ("clean", "stale-2"), (1, 2, 4))
    return fit(data, FitSettings(**options), {}, notes)


def live(rows):
    return sorted((row for row in rows if row["live"]), key=lambda row: (row["task"], row["condition"], row["delay"]))


def oracle(mine, outcome):
    """Out-of-fold and final P(rescue), P(harm) by scikit-learn alone."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GroupKFold
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X = np.array([[row["x_a"], row["x_b"]] for row in mine])
    labels = [
        np.array([row[outcome] > row["y0"] for row in mine]), np.array([row[outcome] < row["y0"] for row in mine])
    ]  # fmt: skip
    predicted = np.empty((len(mine), 2))
    final = []
    splits = list(GroupKFold(5, shuffle=True, random_state=0).split(X, groups=[row["folder"] for row in mine]))
    for column, y in enumerate(labels):
        model = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, tol=1e-10, max_iter=10_000))
        for train, held in splits:
            predicted[held, column] = model.fit(X[train], y[train]).predict_proba(X[held])[:, 1]
        final.append(model.fit(X, y).predict_proba(X)[:, 1])
    return predicted, np.column_stack(final)


def naive(episodes, alphas, betas, gammas, epsilon):
    best = None
    for alpha, beta, gamma in product(alphas, betas, gammas):
        did = counts(Thresholds(alpha, beta, gamma), episodes)
        if did.clean_harms <= harm_limit(episodes, epsilon):
            rank = (did.net_gain, -did.clean_harms, -did.interventions, alpha, beta, gamma)
            best = max(best, rank) if best else rank
    return best


def grouped(mine, moments):
    """Episodes out of (delay, p_err, need, u, gain, operator) a live row."""
    found = {}
    for row, moment in zip(mine, moments, strict=True):
        found.setdefault((row["task"], row["condition"]), []).append(Candidate(*moment))
    return [DecisionEpisode(t, c, c == "clean", tuple(moments)) for (t, c), moments in found.items()]


@pytest.mark.parametrize("epsilon", [0.02, 0.2])
def test_joint_models_and_their_policies_equal_scikit_learn_and_the_naive_loop(tmp_path, epsilon):
    rows = table(tasks=16, clean_harm=0.3)
    made = fitted(tmp_path, rows, epsilon=epsilon, gamma_quantiles=4)
    mine = live(rows)
    by_operator = {"refresh": oracle(mine, "ym"), "replan-only": oracle(mine, "ym_replan-only")}
    main, _ = by_operator["refresh"]
    assert np.abs(np.array([[row["p_rescue"], row["p_harm"]] for row in made.oof]) - main).max() < 1e-9
    assert [row["u_joint"] for row in made.oof] == pytest.approx(main[:, 0] - 2 * main[:, 1], abs=1e-8)
    router = Router.parse(made.router, "router")
    for operator, (_, final) in by_operator.items():
        for place, row in enumerate(mine):
            alone = Router.parse(made.router | {"operator": operator}, "router").moment("joint", row)
            assert alone.need == pytest.approx(final[place, 0], abs=1e-9)
            assert alone.u == pytest.approx(final[place, 0] - 2 * final[place, 1], abs=1e-9)
    # Thresholds: every triple tried, on the project's own out-of-fold numbers so that ties are ties.
    p_err = [row["p_err"] for row in made.oof]
    joint = [
        (row["delay"], here["p_err"], here["p_rescue"], here["u_joint"], int(row["ym"]) - int(row["y0"]))
        for row, here in zip(mine, made.oof, strict=True)
    ]
    axes = grid_values(p_err), grid_values([m[2] for m in joint]), gamma_values([m[3] for m in joint], 4)
    rank = naive(grouped(mine, joint), *axes, epsilon)
    assert tuple(made.router["extensions"]["joint-outcome"]["thresholds"].values()) == rank[3:]
    assert made.router["oof"]["policies"]["joint-outcome"]["net_gain"] == rank[0]
    # Operator choice: at each moment the operator with the highest u, then the same thresholds.
    u = {name: values[:, 0] - 2 * values[:, 1] for name, (values, _) in by_operator.items()}
    chosen = [max(u, key=lambda name, place=place: u[name][place]) for place in range(len(mine))]
    assert set(chosen) == set(u)
    choice = [
        (row["delay"], p_err[place], by_operator[name][0][place, 0], u[name][place],
         int(row["ym" if name == "refresh" else f"ym_{name}"]) - int(row["y0"]), name)
        for place, (row, name) in enumerate(zip(mine, chosen, strict=True))
    ]  # fmt: skip
    axes = grid_values(p_err), grid_values([m[2] for m in choice]), gamma_values([m[3] for m in choice], 4)
    rank = naive(grouped(mine, choice), *axes, epsilon)
    limits = made.router["extensions"]["operator-choice"]["thresholds"]
    assert [limits[name] for name in ("alpha", "beta", "gamma")] == pytest.approx(rank[3:], abs=1e-9)
    assert made.router["oof"]["policies"]["operator-choice"]["net_gain"] == rank[0]
    assert {router.moment("choice", row).operator for row in mine} == set(u)


def test_labels_of_a_held_out_fold_reach_none_of_its_predictions(tmp_path):
    rows = table()
    before = fitted(tmp_path, rows)
    held = {row["task"] for row in before.oof if row["fold"] == 2}
    for row in rows:
        if row["task"] in held:
            row["y0"], row["ym"] = not row["y0"], not row["ym"]
    after = fitted(tmp_path, rows)
    names = ("p_rescue", "p_harm", "u_joint")
    same = [(a, b) for a, b in zip(before.oof, after.oof, strict=True) if a["fold"] == 2]
    assert same
    assert all(a[name] == b[name] for a, b in same for name in names)
    assert any(a[name] != b[name] for a, b in zip(before.oof, after.oof, strict=True) for name in names)


def test_neither_labels_of_a_fold_nor_unknown_labels_are_learnt_from():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), rng.integers(0, 2, size=(60, 2))
    fold = folds_of([f"f{place // 2}" for place in range(60)], 5, 0)
    known = rng.random(60) < 0.8
    first = held_out_predictions(X, y, ["a", "b"], fold, 0.1, [], known)
    for number in range(5):
        changed = y.copy()
        changed[(fold == number) | ~known] ^= 1
        again = held_out_predictions(X, changed, ["a", "b"], fold, 0.1, [], known)
        assert (again[fold == number] == first[fold == number]).all()


def test_the_highest_u_is_chosen_and_the_first_of_equals():
    low, high = Moment("a", 0.5, 0.9, 0.1), Moment("b", 0.5, 0.1, 0.2)
    assert best_operator({"a": low, "b": high}) is high
    assert best_operator({"a": low, "b": Moment("b", 0.5, 0.1, 0.1)}) is low


def test_without_rescues_or_harms_the_models_are_constant_and_nothing_breaks(tmp_path):
    rows = [row | {"ym": row["y0"], "ym_replan-only": row["y0"]} for row in table()]
    made = fitted(tmp_path, rows)
    assert made.router["joint"]["refresh"]["rescue"]["constant"]
    assert any("harm by refresh: every label is the same" in note for note in made.notes)
    assert made.router["oof"]["policies"]["joint-outcome"] == {"net_gain": 0, "clean_harms": 0, "interventions": 0}
    # One rescue only: the fold that holds it predicts from none.
    place = next(p for p, row in enumerate(rows) if row["live"] and not row["y0"])
    rows[place]["ym"] = True
    made = fitted(tmp_path, rows)
    assert any(note.startswith("rescue by refresh: without fold") for note in made.notes)


def test_episodes_without_a_branch_of_an_operator_are_out_of_its_choice_only(tmp_path):
    rows = table()
    rows[0]["ym_replan-only"] = None
    made = fitted(tmp_path, rows)
    assert made.router["extensions"]["operator-choice"]["episodes"] == 79
    assert made.router["extensions"]["joint-outcome"]["episodes"] == 80
    made = fitted(tmp_path, [row | {"ym_replan-only": None} for row in rows])
    assert list(made.router["joint"]) == ["refresh"]
    assert "operator-choice" not in made.router["extensions"]
    assert any("replan-only: too few branches" in note for note in made.notes)


def test_a_table_of_the_contracts_columns_gives_all_but_operator_choice(tmp_path):
    made = fitted(tmp_path, table(others=()))
    assert set(made.router["extensions"]) == {"joint-outcome", "certified"}
    assert set(Router.parse(made.router, "r").extensions) == {"joint-outcome", "certified"}


# --- certificate ------------------------------------------------------------------------------------------------------


def random_clean(rng, tasks, rate):
    """Clean episodes whose task is harmed at alpha with probability rate * (1 - alpha)."""
    episodes = []
    for task in range(tasks):
        reach = 1 - rng.random() / rate
        moments = [Candidate(1, max(reach, 0.0), 0.5, 0.5, -1)] if reach > 0 else []
        moments += [Candidate(2, float(rng.random()), 0.5, 0.5, 0)]
        episodes.append(DecisionEpisode(f"t{task}", "clean", True, tuple(moments)))
    return episodes


def exact_p(harmed, tasks, epsilon):
    share = Fraction(epsilon).limit_denominator(1000)
    terms = (comb(tasks, k) * share**k * (1 - share) ** (tasks - k) for k in range(harmed + 1))
    return float(sum(terms))


@pytest.mark.parametrize(
    ("epsilon", "confidence", "harmed", "tasks"),
    [(0.02, 0.95, 0, 149), (0.02, 0.95, 1, 236), (0.05, 0.95, 0, 59), (0.02, 0.9, 0, 114), (0.1, 0.99, 3, 97)],
)
def test_clean_tasks_needed(epsilon, confidence, harmed, tasks):
    found = clean_tasks_needed(epsilon, confidence, harmed)
    assert found == next(n for n in range(harmed + 1, 1000) if exact_p(harmed, n, epsilon) <= 1 - confidence)
    assert found == tasks


def test_no_number_of_tasks_certifies_zero_and_one_task_certifies_one():
    assert clean_tasks_needed(0.0, 0.95) is None
    assert clean_tasks_needed(1.0, 0.95) == 1


def test_the_ladder_is_fixed_and_walks_from_careful_to_bold():
    assert LADDER[0] == 1.0
    assert LADDER[-1] == 0.0
    assert list(LADDER) == sorted(set(LADDER), reverse=True)


@pytest.mark.parametrize("seed", range(20))
def test_the_certificate_equals_a_naive_fixed_sequence(seed):
    rng = np.random.default_rng(seed)
    episodes = random_clean(rng, int(rng.integers(50, 400)), 0.3)
    certificate = certify(episodes, 0.05, 0.9)
    expected = []
    for alpha in LADDER:
        harmed = sum(any(c.gain < 0 and c.p_err >= alpha for c in episode.candidates) for episode in episodes)
        if exact_p(harmed, len(episodes), 0.05) > 0.1:
            break
        expected.append(alpha)
    assert certificate.alphas == sorted(expected)
    assert all(step.p == pytest.approx(exact_p(step.harmed, len(episodes), 0.05)) for step in certificate.steps)
    # Whatever beta and gamma are, no policy with a certified alpha harms more clean tasks than were counted for it.
    for step in certificate.steps:
        for beta, gamma in product((0.0, 0.4, 0.6), (-1.0, 0.3)):
            assert counts(Thresholds(step.alpha, beta, gamma), episodes).clean_harms <= step.harmed


def test_an_independent_library_certifies_the_same_alphas():
    control = pytest.importorskip(
        "mapie.risk_control.fwer_control", reason="MAPIE is not installed: pip install '.[dev]'"
    )
    methods = sys.modules["mapie.risk_control.methods"]
    for seed in range(10):
        rng = np.random.default_rng(seed)
        # A power of two, so that a rate times the number of tasks is that count again.
        episodes = random_clean(rng, 256, 0.3)
        reach = np.array([max((c.p_err for c in e.candidates if c.gain < 0), default=-1.0) for e in episodes])
        risk = np.array([(reach >= alpha).mean() for alpha in LADDER])
        p = methods.compute_hoeffding_bentkus_p_value(risk, 256, 0.05, binary=True)[:, 0]
        rejected = control.FWERFixedSequenceTesting().run(p, 0.05)
        assert certify(episodes, 0.05, 0.95).alphas == sorted(LADDER[place] for place in rejected)


def test_the_promise_is_kept():
    """Of 400 calibration sets at most one in twenty (and its sampling error) certifies an alpha that harms too often."""
    rng = np.random.default_rng(1)
    broken = 0
    for _ in range(400):
        alphas = certify(random_clean(rng, 200, 0.4), 0.05, 0.95).alphas
        # The true rate at alpha is 0.4 (1 - alpha): above 0.05 below alpha = 0.875.
        broken += bool(alphas) and min(alphas) < 0.875
    assert broken / 400 <= 0.05 + 2 * (0.05 * 0.95 / 400) ** 0.5


def test_too_few_clean_tasks_never_intervene_and_say_how_many_would_do(tmp_path):
    made = fitted(tmp_path, table(clean_harm=0.0))
    certified = made.router["extensions"]["certified"]
    assert certified["never"]
    assert (certified["certificate"]["clean_tasks"], certified["certificate"]["clean_tasks_needed"]) == (40, 149)
    assert any("40 clean tasks can't certify" in note and "149 without harm would" in note for note in made.notes)
    assert "can't be certified by any number" in " ".join(fitted(tmp_path, table(), epsilon=0.0).notes)


def test_enough_clean_tasks_are_certified_and_the_chosen_alpha_is_on_the_ladder(tmp_path):
    made = fitted(tmp_path, table(tasks=150, clean_harm=0.0), gamma_quantiles=3)
    certified = made.router["extensions"]["certified"]
    assert not certified["never"]
    assert certified["thresholds"]["alpha"] in LADDER
    assert made.router["oof"]["policies"]["certified"]["net_gain"] > 0
    assert exceeds_p(certified["certificate"]["steps"][0]["harmed"], 150, 0.02) <= 0.05


def test_without_a_clean_success_nothing_is_certified_or_applied(tmp_path):
    rows = [row | {"y0": False, "ym": row["live"] and row["delay"] == 1} for row in table()]
    extensions = fitted(tmp_path, rows).router["extensions"]
    assert {name: policy["never"] for name, policy in extensions.items()} == dict.fromkeys(extensions, True)


# --- files and commands -----------------------------------------------------------------------------------------------


def test_equal_bytes_twice_and_confidence_from_flag_or_settings(tmp_path):
    path = written(tmp_path / "d.parquet", table())
    for name in ("first", "second"):
        arguments = ["fit", str(path), "--out", str(tmp_path / f"{name}.json"), "--confidence", "0.9"]
        result = CliRunner().invoke(cir, arguments)
        assert result.exit_code == 0, result.exception
        assert "operator-choice: " in result.stderr
    assert (tmp_path / "first.json").read_bytes() == (tmp_path / "second.json").read_bytes()
    router = json.loads((tmp_path / "first.json").read_text())
    assert router["extensions"]["certified"]["certificate"]["confidence"] == 0.9


def test_a_router_of_the_first_format_is_read_without_the_extensions(tmp_path):
    router = fitted(tmp_path, table()).router
    old = {name: value for name, value in router.items() if name not in ("joint", "extensions")} | {"format": 1}
    parsed = Router.parse(old, "old")
    assert (parsed.extensions, parsed.joint) == ({}, {})
    assert parsed.thresholds == Router.parse(router, "new").thresholds
    with pytest.raises(BadInput, match="differ in length"):
        joint = router["joint"] | {
            "refresh": router["joint"]["refresh"] | {"harm": {"intercept": 0, "coefficients": []}}
        }
        Router.parse(router | {"joint": joint}, "new")
    with pytest.raises(BadInput, match="null"):
        rows = table()
        rows[0]["ym_replan-only"] = 3
        training(_whole(tmp_path / "e.parquet", rows), ("clean", "stale-2"), (1, 2, 4))


def _whole(path, rows):
    """A foreign table whose outcomes are whole numbers."""
    import pyarrow as pa

    from pipeline.records.tables import write_table

    write_table(path, pa.Table.from_pylist([row | {"ym_replan-only": int(row["ym_replan-only"])} for row in rows]))
    return path
