"""One row a policy: success, gain over never with interval and tests, interventions, clean harm (contracts.md)."""

from collections.abc import Sequence
from typing import Any

from pipeline.evaluation.costs import COST_UNITS, cost_curve, costs, looks, per_net_rescue
from pipeline.evaluation.lookup import HeldOutSet, Outcome
from pipeline.evaluation.paired import differences, paired_figures, total
from pipeline.evaluation.policies import outcomes_by_policy
from pipeline.router.joint import CHOICE
from pipeline.router.model import Router
from pipeline.statistics.paired import rate_upper_bound

UNITS = {
    "success_rate": "percent of episodes",
    "gain_pp": "percentage points of episodes, over never",
    "ci95_pp": "percentage points, percentile bootstrap over tasks",
    "ci95_folder_pp": "the same over task folders, a sensitivity",
    "intervention_rate": "percent of episodes",
    "clean_harm_rate": "percent of clean episodes",
    "clean_harm_upper95": "percent of clean episodes, one-sided exact 95% bound",
    "random": "expectations over the policy's draws: counts may be fractional, tests and bounds of counts are null",
    "looks": "extra environment actions; null where an operator's are not known",
    "differences": "policy less versus on the same episodes; better and worse: episodes only the one or only the other ends well",
    "cost_curve": "gain_pp less 100 c times the units used for each episode; c in successes for a unit",
    **COST_UNITS,
}


def summarise(router: Router, found: HeldOutSet, resamples: int, seed: int) -> dict[str, Any]:
    """The content of evaluation/summary.json, without the digests of its inputs."""
    played = outcomes_by_policy(router, found)
    rows = []
    for name, outcomes in played.items():
        conditions = sorted({outcome.condition for outcome in outcomes}, key=lambda c: (c != "clean", c))
        by_condition = [
            {"condition": c} | figures([o for o in outcomes if o.condition == c], resamples, seed) for c in conditions
        ]
        rows.append({"policy": name} | figures(outcomes, resamples, seed) | {"by_condition": by_condition})
    return {
        "policies": rows,
        "differences": differences(played, resamples, seed),
        "costs": costs(played, resamples, seed),
        "cost_curve": cost_curve(played, resamples, seed),
        "planned": {"tasks": found.planned_tasks, "episodes": found.planned_episodes},
        "evaluable": {"tasks": len({episode.task for episode in found.episodes}), "episodes": len(found.episodes)},
        "left_out": [{"task": task, "condition": condition} for task, condition in found.left_out],
        "not_evaluated": [
            {"policy": CHOICE, "why": f"the pairs hold no branch of {', '.join(found.not_measured)}"}
            for _ in found.not_measured[:1]
        ],
        "operator": router.operator,
        "candidate_delays": list(router.delays),
        "resamples": resamples,
        "seed": seed,
        "units": UNITS,
    }


def figures(outcomes: Sequence[Outcome], resamples: int, seed: int) -> dict[str, Any]:
    """A policy's figures on some episodes; tasks are the clusters of the interval and of the sign-flip test."""
    compared = paired_figures(outcomes, [outcome.y for outcome in outcomes], [o.y0 for o in outcomes], resamples, seed)
    episodes = len(outcomes)
    success, interventions = total([o.y for o in outcomes]), total([o.intervened for o in outcomes])
    clean = [outcome for outcome in outcomes if outcome.condition == "clean"]
    clean_harms = total([max(0, outcome.y0 - outcome.y) for outcome in clean])
    countable = clean and isinstance(clean_harms, int)
    net = compared["better"] - compared["worse"]
    return {
        "tasks": compared["tasks"],
        "episodes": episodes,
        "never_success": sum(outcome.y0 for outcome in outcomes),
        "success": success,
        "success_rate": 100 * success / episodes,
        "gain_pp": compared["mean_pp"],
        "ci95_pp": compared["ci95_pp"],
        "ci95_folder_pp": compared["ci95_folder_pp"],
        "rescue": compared["better"],
        "harm": compared["worse"],
        "interventions": interventions,
        "intervention_rate": 100 * interventions / episodes,
        "clean_harm_rate": 100 * clean_harms / len(clean) if clean else None,
        "clean_harm_upper95": 100 * rate_upper_bound(clean_harms, len(clean)) if countable else None,
        "sign_flip_p": compared["sign_flip_p"],
        "sign_flip_p_mc": compared["sign_flip_p_mc"],
        "mcnemar_p": compared["mcnemar_p"],
        "looks": looks(outcomes),
        "interventions_per_net_rescue": per_net_rescue(interventions, net),
        "looks_per_net_rescue": per_net_rescue(looks(outcomes), net),
    }
