"""A synthetic study with the tables of a real one, for the tests of the page."""

import json
from collections import Counter
from pathlib import Path

import numpy as np

from pipeline.config.models import Study
from pipeline.outcomes.effects import KEYS, Interval, effects
from pipeline.records.files import write_json
from pipeline.records.schemas import SCHEMAS, decisions_schema
from pipeline.records.tables import read_rows, write_rows
from pipeline.report.inputs import Paths, read_inputs
from pipeline.router.model import signals

CONDITIONS, DELAYS = ["clean", "stale-2", "stale-1", "missing"], [0, 1, 2, 4]
OPERATORS = ["none", "refresh", "content-ablated", "replan-only"]
TYPES = ["look_at_obj_in_light", "pick_and_place_simple", "pick_two_obj_and_place"]
HOSTILE = "</pre><script>alert(1)</script>\"'&<img src=x onerror=alert(1)>"
POLICIES = ["never", "always-1", "always-2", "always-4", "sequential-anomaly", "rate-matched-anomaly", "cir"]


def cell_of(y0, ym):
    return {(0, 1): "rescue", (1, 0): "harm", (1, 1): "kept-success", (0, 0): "unchanged-failure"}[int(y0), int(ym)]


def cohort_rows(rng, name, role, size, reason):
    rows = []
    for place in range(size + 3):
        kind = TYPES[place % len(TYPES)]
        folder = f"{kind}-{name}-{place // 2}"
        excluded = None if place < size else [reason, "beyond the cohort's size"][place % 2]
        rows.append(
            {"cohort": name, "role": role, "task": f"{folder}/trial_{place}", "folder": folder, "task_type": kind,
             "feasible": excluded is None, "excluded": excluded, "factual_success": bool(rng.random() < 0.8),
             "factual_actions": 12 + place % 9, "altered_at": 3}
        )  # fmt: skip
    return rows


def pair_rows(rng, tasks):
    """Outcomes drawn so that operators differ, delays matter and the A/A arm never flips."""
    rows = []
    for task in tasks:
        for e in CONDITIONS:
            y0 = (
                task["factual_success"]
                if e == "clean"
                else bool(rng.random() < (0.8 if task["factual_success"] else 0.1))
            )
            for d in DELAYS:
                live = d < 4 or rng.random() < 0.9
                for m in OPERATORS:
                    chance = {
                        "none": (0, 0),
                        "refresh": (0.06, 0.45),
                        "content-ablated": (0.05, 0.3),
                        "replan-only": (0.1, 0.1),
                    }[m]
                    flips = live and rng.random() < chance[0 if y0 else 1] * (0.6 if e == "clean" and not y0 else 1)
                    rows.append(
                        {name: task[name] for name in ("cohort", "task", "folder", "task_type", "factual_success")}
                        | {"condition": e, "delay": d, "operator": m, "y0": y0, "ym": y0 != flips, "cell": cell_of(y0, y0 != flips),
                           "intervened": m != "none" and live, "null_alteration": e == "stale-1" and bool(rng.random() < 0.1),
                           "fork_action": 3 + d, "state_hash": "s", "transcript_hash": "t"}
                    )  # fmt: skip
    return rows


def policy_rows(rng, pairs):
    """summary.json's policies: each acts on a random share of the episodes, at delay 1."""
    units = [
        row for row in pairs if row["cohort"] == "evaluation" and row["operator"] == "refresh" and row["delay"] == 1
    ]
    tasks, policies = len({row["task"] for row in units}), []
    for place, name in enumerate(POLICIES):
        acts = [name != "never" and (name.startswith("always") or rng.random() < 0.2) for _ in units]
        chosen = [(row, act) for row, act in zip(units, acts, strict=True)]
        by_condition = []
        for e in CONDITIONS:
            some = [(row, act) for row, act in chosen if row["condition"] == e]
            cells = Counter(row["cell"] for row, act in some if act)
            by_condition.append(
                {"condition": e, "tasks": len(some), "episodes": len(some),
                 "never_success": sum(row["y0"] for row, _ in some),
                 "success": sum(row["ym"] if act else row["y0"] for row, act in some), "rescue": cells["rescue"],
                 "harm": cells["harm"], "interventions": sum(act for _, act in some)}
            )  # fmt: skip
        total = {key: sum(row[key] for row in by_condition) for key in ("success", "rescue", "harm", "interventions")}
        gain = 100 * (total["rescue"] - total["harm"]) / len(units)
        policies.append(
            {"policy": name, "tasks": tasks, "episodes": len(units), "success_rate": total["success"] / len(units), "gain_pp": gain,
             "ci95_pp": [gain - (1.37 + place) * (name != "never"), gain + (2.41 + place) * (name != "never")],
             "intervention_rate": total["interventions"] / len(units), "clean_harm_rate": by_condition[0]["harm"] / tasks,
             "sign_flip_p": 1.0 if name == "never" else 0.0311 * (place + 1), "sign_flip_p_mc": 0.5, "mcnemar_p": 0.5,
             "by_condition": by_condition} | total
        )  # fmt: skip
    return policies


def router_json(rng, tasks):
    names = [
        "x_repeated_actions",
        "x_repeated_reasoning",
        "x_no_ops",
        "x_novelty",
        "x_agreement",
        "x_progress",
        "x_budget",
    ]
    return {
        "format": 1, "features": names, "scaling": {"mean": [0.25] * 7, "scale": [1.5] * 7},
        "models": {
            name: {"intercept": -0.5, "coefficients": [round(float(value), 3) for value in rng.normal(size=7)]}
            for name in ("p_err", "p_0", "p_1")
        },
        "never": False, "thresholds": {"alpha": 0.731, "beta": 0.052, "gamma": 0.0},
        "comparators": {"sequential-anomaly": {"alpha": 0.901}, "rate-matched-anomaly": {"alpha": None}},
        "lambda": 2.0, "epsilon": 0.02, "delays": [1, 2, 4], "operator": "refresh",
        "inputs": {"decisions.parquet": "ab" * 32},
        "fit": {"tasks": [row["task"] for row in tasks], "folders": sorted({row["folder"] for row in tasks})},
        "notes": ["a note of the fit"],
    }  # fmt: skip


def make_study(folder: Path, size=20, held_out=8, seed=0, reason=HOSTILE) -> dict[str, str]:
    """A study's tables under `folder`; returns the options of `cir report` by name."""
    rng = np.random.default_rng(seed)
    study = Study(
        study="synthetic",
        cohorts={
            "main": {"role": "fit", "split": "train", "size": size},
            "evaluation": {"role": "evaluate", "split": "valid_seen", "size": held_out},
        },
        protocol={"texts": {"replan_text": HOSTILE}},
    )
    main = cohort_rows(rng, "main", "fit", size, reason)
    candidates = main + cohort_rows(rng, "evaluation", "evaluate", held_out, reason)
    feasible = [row for row in candidates if row["feasible"]]
    pairs = pair_rows(rng, feasible)
    names = ("study", "games", "cohorts", "pairs", "exclusions", "effects", "router", "evaluation")
    paths = {
        name: str(folder / f"{name}.{'json' if name in ('study', 'router', 'evaluation') else 'parquet'}")
        for name in names
    }
    write_json(paths["study"], study.model_dump(mode="json", by_alias=True))
    games = [
        {name: row[name] for name in ("task", "folder", "task_type")}
        | {"split": study.cohorts[row["cohort"]].split, "path": "p", "sha256": "0" * 64, "verb": "move"}
        | {"walkthrough_actions": 9, "receptacles": 12, "objects": 30}
        for row in candidates
    ]
    write_rows(paths["games"], games, "games")
    write_rows(paths["cohorts"], candidates, "cohorts")
    write_rows(paths["pairs"], pairs, "pairs")
    left = [
        {name: row[name] for name in ("cohort", "task")}
        | {"condition": None, "delay": None, "operator": None, "reason": row["excluded"]}
        for row in candidates
        if row["excluded"]
    ]
    write_rows(paths["exclusions"], left, "exclusions")
    write_rows(paths["effects"], effects(paths["pairs"], KEYS, Interval(resamples=200)), "effects")
    write_json(paths["router"], router_json(rng, [row for row in main if row["feasible"]]))
    write_json(paths["evaluation"], {"policies": policy_rows(rng, pairs)})
    return paths


def inputs_of(paths):
    return read_inputs(Paths(**{name: Path(path) for name, path in paths.items()}))


def options(paths, out, *more):
    return [part for name, path in paths.items() for part in (f"--{name}", path)] + ["--out", str(out), *more]


RIGHT_TO_LEFT = "\u202eשלום‏ abc"
HUGE = "x" * 9000


def step(index, kind, output=None, action=None, true=None, shown=None):
    """A step; what the agent is shown is true unless said otherwise."""
    return {"index": index, "kind": kind, "output": output, "action": action, "observation_true": true, "state_hash": "s",
            "observation_shown": true if shown is None else shown, "transcript_hash": "t", "rejection": None}  # fmt: skip


def act(index, action, true, shown=None):
    return step(index, "act", action, action, true, shown)


def trunk_steps(task, condition, actions):
    """Reset, a thought full of hostile text, then actions; the third one's reply is altered where the condition says so."""
    start = step(0, "reset", true=f"Welcome\n\nA room of {task}.", shown=f"A room of {task}.")
    steps = [start, step(1, "think", f"think: {HOSTILE}{RIGHT_TO_LEFT}{HUGE}", shown="OK.")]
    for number in range(1, actions + 1):
        false = "Observation unavailable." if number == 3 and condition != "clean" else None
        steps.append(act(number + 1, f"go to shelf {number}", f"On the shelf {number} you see a cup {number}.", false))
    return steps


def episode(task, condition, success, steps):
    return {"task": task, "condition": condition, "agent": "a", "success": success, "exit": "success" if success else "gave-up",
            "turns": len(steps), "actions": 3, "altered_at": 3, "steps": steps, "transcript_hash": "t", "prompt_tokens": None,
            "completion_tokens": None, "excluded": None}  # fmt: skip


def filled(rows, schema):
    """Rows with null for every column that a test has no use for."""
    return [dict.fromkeys(schema.names) | row for row in rows]


def make_episodes(folder: Path, paths: dict[str, str]) -> dict[str, str]:
    """Trunks, branches, decisions and out-of-fold predictions that fit the study's pairs; the options with them."""
    rng, pairs = np.random.default_rng(5), read_rows(paths["pairs"])
    live = {(p["task"], p["condition"], p["delay"]): p["intervened"] for p in pairs if p["operator"] == "refresh"}
    trunks, forks = {}, {}
    for pair in pairs:
        task, e, d, m = (pair[name] for name in ("task", "condition", "delay", "operator"))
        steps = trunk_steps(task, e, 12 if live[task, e, 4] else 7)
        trunks.setdefault((pair["cohort"], e), {})[task] = episode(task, e, pair["y0"], steps)
        rest = steps[steps.index(next(s for s in steps if s["action"] == f"go to shelf {pair['fork_action']}")) + 1 :]
        if not live[task, e, d]:
            rest = []
        elif m != "none":
            look = step(
                rest[0]["index"],
                "recover",
                "look",
                "look",
                "You see nothing.",
                "[withheld]" if m == "content-ablated" else None,
            )
            rest = (
                [look, *rest[:1], act(90, f"take cup with {m}", "You take it.")]
                if pair["ym"] != pair["y0"]
                else [look, *rest]
            )
        forks.setdefault((pair["cohort"], e, d, m), []).append(
            episode(task, e, pair["ym"], rest)
            | {"delay": d, "operator": m, "operator_hash": "o", "fork_action": pair["fork_action"], "state_hash": "s",
               "final_transcript_hash": "t", "intervened": pair["intervened"], "carried_forward": not live[task, e, d]}
        )  # fmt: skip
    for (cohort, e), rows in trunks.items():
        path = folder / "trajectories" / f"cohort={cohort}" / f"condition={e}" / "trunk.parquet"
        write_rows(path, filled(rows.values(), SCHEMAS["trajectories"]), "trajectories")
    for (cohort, e, d, m), rows in forks.items():
        path = (
            folder / "forks" / f"cohort={cohort}" / f"condition={e}" / f"delay={d}" / f"operator={m}" / "part.parquet"
        )
        write_rows(path, filled(rows, SCHEMAS["forks"]), "forks")
    router = json.loads(Path(paths["router"]).read_text())
    moments = [p for p in pairs if p["operator"] == "refresh" and p["delay"] in router["delays"]]
    decisions = [
        {name: p[name] for name in ("cohort", "task", "folder", "condition", "delay", "factual_success", "y0", "ym")}
        | {"live": p["intervened"]}
        | {name: float(rng.normal()) if p["intervened"] else None for name in router["features"]}
        for p in moments
    ]
    write_rows(folder / "decisions.parquet", decisions, decisions_schema(router["features"]))
    oof = []
    for p in moments:
        if p["task"] in router["fit"]["tasks"] and p["condition"] in ("clean", "stale-2") and p["intervened"]:
            found = signals(*(float(x) for x in rng.uniform(size=3)), router["lambda"])
            row = {name: p[name] for name in ("task", "condition", "delay")} | {"fold": 0}
            row |= {name: getattr(found, name) for name in ("p_err", "p_0", "p_1", "s_R", "s_H", "u")}
            oof.append(row | {"p_rescue": 0.1, "p_harm": 0.1, "u_joint": -0.1})
    write_rows(folder / "oof.parquet", filled(oof, SCHEMAS["oof"]), "oof")
    more = {name: str(folder / f"{name}.parquet") for name in ("decisions", "oof")}
    return paths | more | {name: str(folder / name) for name in ("trajectories", "forks")}
