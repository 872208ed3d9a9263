"""The AIPW value of a policy from a log: against sums by hand, the simulator's truth, and pairs with one branch hidden."""

import json

import numpy as np
import pyarrow as pa
import pytest
import simulator as sim
from click.testing import CliRunner
from scipy import stats
from test_simulator import router

from pipeline.cli import cir
from pipeline.errors import BadInput, CheckFailed
from pipeline.evaluation.value import column_policy, read_log, router_policies
from pipeline.records.tables import write_table
from pipeline.statistics.aipw import Log, episode_values, estimate, estimated_propensities, folds_of

ALPHA = 0.001
# P(recovered at a live moment | state): the log prefers to recover where it helps, so its states are confounded.
CHANCE = np.array([0.15, 0.5, 0.35, 0.25])
BLIND = np.full(4, 0.3)
NEVER = (None, None, None, None)


def log_of(drawn, rng, chance=CHANCE, features=True):
    """The log of a sample as arrays, by a vectorised way of its own (the command reads sim.reveal's rows)."""
    shape = drawn.live.shape
    action = np.zeros(shape, dtype=int)
    live = drawn.live.copy()
    y = drawn.y0.copy()
    going = np.ones(len(y), dtype=bool)
    for moment in range(shape[1]):
        live[:, moment] &= going
        acts = live[:, moment] & (rng.random(len(y)) < chance[drawn.state])
        action[acts, moment] = 1
        y[acts] = drawn.ym[acts, moment]
        going &= ~acts
    propensity = np.repeat(chance[drawn.state][:, None], shape[1], axis=1)
    x = drawn.features if features else np.zeros((*shape, 0))
    return Log(live, action, x, y, propensity, drawn.task)


def runs(repetitions, tasks, policy, chance=CHANCE, features=True, propensity=None, noise=0.0, seed=0):
    """Estimates of a state policy's value over fresh samples; `propensity`: what the estimator is told (None: estimates)."""
    found = []
    for number in range(repetitions):
        rng = np.random.default_rng([seed, number])
        drawn = sim.sample(tasks, rng, noise)
        log = log_of(drawn, rng, chance, features)
        fold = folds_of(log.cluster, 5, number)
        told = propensity(log, fold, drawn)
        found.append(estimate(episode_values(log, sim.state_policy(drawn, policy), told, fold), log.cluster))
    return found


def known(log, fold, drawn):
    return log.propensity


def fitted(log, fold, drawn):
    return estimated_propensities(log, fold)


def wrong(log, fold, drawn):
    return np.full(log.live.shape, 0.3)


def bias(found, truth):
    """Mean error and how many standard errors of the mean it is."""
    values = np.array([one.value for one in found])
    return values.mean() - truth, (values.mean() - truth) / (values.std(ddof=1) / np.sqrt(len(values)))


def coverage(found, truth):
    return sum(one.low <= truth <= one.high for one in found)


TRUTH = sim.never_value() + sim.gain(sim.BEST)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("told", "features"),
    [(known, True), (known, False), (fitted, True), (wrong, True)],
    ids=["both right", "outcome model wrong", "propensities estimated", "propensities wrong"],
)
def test_it_is_unbiased_and_covers_when_either_model_is_right(told, features):
    """The best policy, which acts at two delays; without features the outcome model knows nothing of the state."""
    found = runs(60 if told is fitted else 300, 200, sim.BEST, features=features, propensity=told, seed=1)
    off, errors = bias(found, TRUTH)
    print(told.__name__, features, round(100 * off, 3), round(errors, 2), coverage(found, TRUTH) / len(found))
    assert abs(errors) < stats.norm.isf(ALPHA / 2)
    # With wrong propensities the mean is right, the interval is not promised.
    assert told is wrong or stats.binomtest(coverage(found, TRUTH), len(found), 0.95).pvalue > ALPHA


@pytest.mark.slow
def test_it_is_biased_when_both_are_wrong():
    """The check above has the power to see a bias: the same estimator, told wrong propensities and no features."""
    off, errors = bias(runs(150, 200, sim.BEST, features=False, propensity=wrong, seed=2), TRUTH)
    print("both wrong", round(100 * off, 3), round(errors, 2))
    assert abs(errors) > 8


@pytest.mark.slow
@pytest.mark.parametrize("policy", [sim.BEST, NEVER, (0, 0, 0, 0)], ids=["best", "never", "always-1"])
def test_hiding_one_branch_of_pairs_gives_back_the_paired_value(policy):
    """One fixed set of pairs, revealed anew with known chances: the mean is the paired value, its interval covers."""
    drawn = sim.sample(300, np.random.default_rng(3), noise=0.5)
    acts = sim.state_policy(drawn, policy)
    taken = np.take_along_axis(drawn.ym, acts.argmax(axis=1)[:, None], axis=1)[:, 0]
    paired = np.where(acts.any(axis=1), taken, drawn.y0).mean()
    found = []
    for number in range(200):
        rng = np.random.default_rng([4, number])
        log = log_of(drawn, rng, BLIND)
        fold = folds_of(log.cluster, 5, number)
        found.append(estimate(episode_values(log, acts, log.propensity, fold), log.cluster))
    off, errors = bias(found, paired)
    print(round(100 * off, 3), round(errors, 2), coverage(found, paired) / len(found))
    assert abs(errors) < stats.norm.isf(ALPHA / 2)
    # The pairs are fixed here and the interval allows for drawing them too, so it covers at least as often.
    assert stats.binomtest(coverage(found, paired), len(found), 0.95, alternative="less").pvalue > ALPHA


def test_one_moment_is_the_textbook_estimator():
    """Without features, known propensities: m_policy + 1[a = policy] (y - m_a) / p, arm means of the other folds, in plain loops."""
    rng = np.random.default_rng(5)
    n = 40
    action, policy = rng.integers(0, 2, n), rng.integers(0, 2, n)
    y, p = rng.integers(0, 2, n), rng.uniform(0.2, 0.8, n)
    names = [f"t{place // 2}" for place in range(n)]
    fold = folds_of(names, 4, 0)
    log = Log(np.ones((n, 1), dtype=bool), action[:, None], np.zeros((n, 1, 0)), y, p[:, None], names)
    ours = episode_values(log, policy[:, None], p[:, None], fold)
    for i in range(n):
        arms = [[y[j] for j in range(n) if fold[j] != fold[i] and action[j] == a] for a in (0, 1)]
        means = [sum(arm) / len(arm) for arm in arms]
        chance = p[i] if action[i] else 1 - p[i]
        expected = means[policy[i]] + (action[i] == policy[i]) * (y[i] - means[action[i]]) / chance
        assert ours[i] == pytest.approx(expected, abs=1e-12)
    sums = [sum(ours[place] for place in range(n) if names[place] == name) for name in sorted(set(names))]
    found = estimate(ours, names)
    # Clusters of equal size: the textbook standard error of a mean of the clusters' means.
    assert found.error == pytest.approx(stats.sem(np.array(sums) / 2), abs=1e-12)
    assert found.high - found.value == pytest.approx(stats.norm.ppf(0.975) * found.error, abs=1e-12)


def test_its_models_are_scikit_learns():
    """One fold's outcome and propensity models against Ridge and LogisticRegression, built here."""
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    rng = np.random.default_rng(6)
    drawn = sim.sample(80, rng, noise=0.5)
    log = log_of(drawn, rng)
    first = Log(log.live[:, :1], log.action[:, :1], log.features[:, :1], log.y, None, log.cluster)
    fold = folds_of(log.cluster, 5, 0)
    p = estimated_propensities(first, fold)
    values = episode_values(first, np.ones((len(log.y), 1), dtype=int), p, fold)
    x, a = first.features[:, 0], first.action[:, 0]
    for number in range(5):
        learn, tell = fold != number, fold == number
        chance = make_pipeline(StandardScaler(), LogisticRegression(C=1.0, tol=1e-10, max_iter=10_000))
        chance = chance.fit(x[learn], a[learn]).predict_proba(x[tell])[:, 1].clip(0.02, 0.98)
        assert np.abs(chance - p[tell, 0]).max() < 1e-8
        scaler = StandardScaler().fit(x[learn])
        rows = learn & (a == 1)
        outcome = Ridge(alpha=1.0).fit(scaler.transform(x[rows]), log.y[rows]).predict(scaler.transform(x[tell]))
        expected = outcome + a[tell] / chance * (log.y[tell] - outcome)
        assert np.abs(values[tell] - expected).max() < 1e-7


def test_folds_keep_clusters_whole_and_even():
    names = [f"t{place % 23}" for place in range(100)]
    fold = folds_of(names, 5, 3)
    assert all(len({f for f, n in zip(fold, names, strict=True) if n == name}) == 1 for name in set(names))
    per_fold = [len({n for f, n in zip(fold, names, strict=True) if f == number}) for number in range(5)]
    assert sorted(per_fold) == [4, 4, 5, 5, 5]


@pytest.fixture
def logged(tmp_path):
    """`logged(change, drop)`: a log on disk of 60 simulated tasks, rows changed or columns dropped."""
    drawn = sim.sample(60, np.random.default_rng(7))
    base = sim.reveal(drawn, CHANCE, np.random.default_rng(8))

    def factory(change=lambda row, place: row, drop=()):
        rows = [change(dict(row), place) for place, row in enumerate(base)]
        rows = [{name: x for name, x in row.items() if name not in drop} for row in rows]
        write_table(tmp_path / "log.parquet", pa.Table.from_pylist(rows))
        return tmp_path / "log.parquet"

    return factory


def value(path, *arguments):
    return CliRunner().invoke(cir, ["value", str(path), *map(str, arguments)])


def would(row, place):
    return row | {"mine": int(row["x_misled"] > 0.5)}


def test_the_command_values_a_column_and_the_same_router_alike(logged, tmp_path):
    path = logged(would)
    by_column = json.loads(value(path, "--policy-column", "mine", "--format", "json").stdout)
    assert [row["policy"] for row in by_column["policies"]] == ["logged", "never", "mine"]
    assert (by_column["propensity"], by_column["policies"][1]["gain_pp"]) == ("given", 0)
    (tmp_path / "router.json").write_text(json.dumps(router_json()))
    by_router = json.loads(value(path, "--router", tmp_path / "router.json", "--format", "json").stdout)
    mine, theirs = by_column["policies"][-1], by_router["policies"][-1]
    assert theirs["policy"] == "cir"
    assert {**mine, "policy": "cir"} == theirs
    assert mine["followed_rate"] > 20
    assert mine["ci95_pp"][0] < mine["gain_pp"] < mine["ci95_pp"][1]
    assert value(path, "--policy-column", "mine").stdout == value(path, "--policy-column", "mine").stdout
    assert max(len(line) for line in value(path, "--policy-column", "mine").stdout.splitlines()) <= 80


def router_json():
    from dataclasses import asdict

    model = router([0, 1, 0, 0])
    return {
        "format": 1, "features": list(model.names), "scaling": {"mean": model.mean, "scale": model.scale},
        "models": {name: {"intercept": w[0], "coefficients": w[1]} for name, w in model.weights.items()},
        "never": False, "thresholds": asdict(model.thresholds),
        "comparators": {name: {"alpha": None} for name in model.anomaly},
        "lambda": 2, "epsilon": 0.02, "delays": list(model.delays), "operator": "refresh", "fit": {"tasks": [], "folders": []},
    }  # fmt: skip


def test_the_rows_read_are_the_arrays(logged):
    """The table's way in and the arrays of log_of agree on what was logged."""
    table = read_log(logged(would), ["mine"])
    policy = column_policy(table, "mine", "log")
    assert table.delays == list(sim.DELAYS)
    for row, (episode, moment) in zip(table.rows, table.places, strict=True):
        assert table.log.live[episode, moment] == row["live"]
        assert table.log.y[episode] == row["y"]
        assert policy[episode, moment] == (row["live"] and row["mine"])
        if row["live"]:
            assert table.log.features[episode, moment].tolist() == [row[name] for name in table.names]
    assert table.log.action.sum() == sum(bool(row["action"]) for row in table.rows) > 20
    assert (router_policies(table, router([0, 1, 0, 0]), "log")["cir"] == policy).all()


def test_without_propensities_they_are_estimated_and_it_is_said(logged):
    result = value(logged(would, drop=["propensity"]), "--policy-column", "mine", "--format", "json")
    assert json.loads(result.stdout)["propensity"] == "estimated"
    assert "no column propensity" in result.stderr


def test_folders_move_together(logged):
    path = logged(lambda row, place: would(row, place) | {"folder": row["task"][:8]})
    rows = json.loads(value(path, "--policy-column", "mine", "--format", "json").stdout)["policies"]
    assert rows[0]["clusters"] == 6


@pytest.mark.parametrize(
    ("change", "drop", "message"),
    [
        (would, ["action", "y"], "lacks the column(s) action, y"),
        (would, ["mine"], "lacks the column(s) mine"),
        (lambda row, place: would(row, place) | {"propensity": 1.0}, [], "inside (0, 1)"),
        (lambda row, place: would(row, place) | {"action": 2}, [], "action must be 0 or 1"),
        (lambda row, place: would(row, place) | {"y": row["y"] if place else 1 - row["y"]}, [], "y differs"),
        (lambda row, place: would(row, place) | {"y": 7}, [], "from 0 to 1"),
        (lambda row, place: would(row, place) | {"action": 1, "y": 1}, [], "action 1, but the episode had ended"),
        (lambda row, place: would(row, place) | {"action": int(row["live"]), "y": 1}, [], "at most once"),
        (lambda row, place: would(row, place) | {"delay": 1}, [], "stands twice"),
        (lambda row, place: would(row, place) | {"x_misled": None}, [], "x_misled is missing"),
        (lambda row, place: row | {"mine": 3}, [], "mine must be 0 or 1"),
        (lambda row, place: would(row, place) | {"task": "one"}, [], "stands twice"),
    ],
)  # fmt: skip
def test_unusable_logs_are_refused_by_name(logged, change, drop, message):
    result = value(logged(change, drop), "--policy-column", "mine")
    assert isinstance(result.exception, BadInput)
    assert message in str(result.exception)


def test_a_log_of_the_routers_own_fit_and_too_few_tasks_are_refused(logged, tmp_path):
    path = tmp_path / "router.json"
    path.write_text(json.dumps(router_json() | {"fit": {"tasks": ["task00001/trial"], "folders": []}}))
    result = value(logged(would), "--router", path)
    assert isinstance(result.exception, CheckFailed)
    assert "were fitted on" in str(result.exception)
    path.write_text(json.dumps(router_json() | {"delays": [3]}))
    assert "candidate delay(s) 3" in str(value(logged(would), "--router", path).exception)
    for arguments in ((), ("--router", path, "--policy-column", "mine")):
        assert "either --router or --policy-column" in str(value(logged(would), *arguments).exception)
    few = value(logged(would), "--policy-column", "mine", "--folds", 61)
    assert "60 clusters can't make 61 folds" in str(few.exception)
