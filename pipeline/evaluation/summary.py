"""One row a policy: success, gain over never with interval and tests, interventions, clean harm (contracts.md)."""

from collections.abc import Sequence
from typing import Any

from pipeline.evaluation.lookup import HeldOutSet, Outcome, play
from pipeline.router.model import Router
from pipeline.router.policy import Thresholds
from pipeline.statistics.bootstrap import cluster_totals, percentile_interval
from pipeline.statistics.paired import mcnemar_exact, rate_upper_bound, sign_flip_exact, sign_flip_monte_carlo

UNITS = {
    "success_rate": "percent of episodes",
    "gain_pp": "percentage points of episodes, over never",
    "ci95_pp": "percentage points, percentile bootstrap over tasks",
    "ci95_folder_pp": "the same over task folders, a sensitivity",
    "intervention_rate": "percent of episodes",
    "clean_harm_rate": "percent of clean episodes",
    "clean_harm_upper95": "percent of clean episodes, one-sided exact 95% bound",
}


def policies(router: Router, delays: Sequence[int]) -> dict[str, Thresholds | int | None]:
    """Every policy by name: never, always at each recorded delay, the anomaly comparators, and the router as `cir`."""
    return {"never": None, **{f"always-{delay}": delay for delay in delays}, **router.policies()}


def summarise(router: Router, found: HeldOutSet, resamples: int, seed: int) -> dict[str, Any]:
    """The content of evaluation/summary.json, without the digests of its inputs."""
    rows = []
    for name, choice in policies(router, found.delays).items():
        outcomes = play(found.episodes, choice)
        conditions = sorted({outcome.condition for outcome in outcomes}, key=lambda c: (c != "clean", c))
        by_condition = [
            {"condition": c} | figures([o for o in outcomes if o.condition == c], resamples, seed) for c in conditions
        ]
        rows.append({"policy": name} | figures(outcomes, resamples, seed) | {"by_condition": by_condition})
    return {
        "policies": rows,
        "planned": {"tasks": found.planned_tasks, "episodes": found.planned_episodes},
        "evaluable": {"tasks": len({episode.task for episode in found.episodes}), "episodes": len(found.episodes)},
        "left_out": [{"task": task, "condition": condition} for task, condition in found.left_out],
        "operator": router.operator,
        "candidate_delays": list(router.delays),
        "resamples": resamples,
        "seed": seed,
        "units": UNITS,
    }


def figures(outcomes: Sequence[Outcome], resamples: int, seed: int) -> dict[str, Any]:
    """A policy's figures on some episodes; tasks are the clusters of the interval and of the sign-flip test."""
    gains = [outcome.y - outcome.y0 for outcome in outcomes]
    sums, sizes = cluster_totals([outcome.task for outcome in outcomes], gains)
    low, high = percentile_interval(sums, sizes, resamples, seed)
    by_folder = cluster_totals([outcome.folder for outcome in outcomes], gains)
    folder_low, folder_high = percentile_interval(*by_folder, resamples, seed)
    episodes = len(outcomes)
    rescue, harm = gains.count(1), gains.count(-1)
    success, interventions = sum(outcome.y for outcome in outcomes), sum(outcome.intervened for outcome in outcomes)
    clean = [outcome for outcome in outcomes if outcome.condition == "clean"]
    clean_harms = sum(outcome.y < outcome.y0 for outcome in clean)
    return {
        "tasks": len(sums),
        "episodes": episodes,
        "never_success": sum(outcome.y0 for outcome in outcomes),
        "success": success,
        "success_rate": 100 * success / episodes,
        "gain_pp": 100 * sum(gains) / episodes,
        "ci95_pp": [100 * low, 100 * high],
        "ci95_folder_pp": [100 * folder_low, 100 * folder_high],
        "rescue": rescue,
        "harm": harm,
        "interventions": interventions,
        "intervention_rate": 100 * interventions / episodes,
        "clean_harm_rate": 100 * clean_harms / len(clean) if clean else None,
        "clean_harm_upper95": 100 * rate_upper_bound(clean_harms, len(clean)) if clean else None,
        "sign_flip_p": sign_flip_exact(sums),
        "sign_flip_p_mc": sign_flip_monte_carlo(sums, resamples, seed),
        "mcnemar_p": mcnemar_exact(rescue, harm),
    }
