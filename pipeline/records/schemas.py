"""Explicit Parquet schemas of every table (contracts.md); units and meanings stand in the field metadata."""

from collections.abc import Sequence

import pyarrow as pa


def _field(name: str, type_: pa.DataType, meaning: str, nullable: bool = False) -> pa.Field:
    return pa.field(name, type_, nullable=nullable, metadata={"meaning": meaning})


TEXT, WHOLE, REAL, FLAG = pa.string(), pa.int64(), pa.float64(), pa.bool_()

TASK = _field("task", TEXT, "<task folder>/<trial>, as in ALFWorld's layout")
FOLDER = _field("folder", TEXT, "task folder: the unit of grouped folds and of the clustered interval")
TASK_TYPE = _field("task_type", TEXT, "one of ALFWorld's six task types")
COHORT = _field("cohort", TEXT, "name of the cohort in the study's config")
CONDITION = _field("condition", TEXT, "what the agent is shown: clean, stale-N, missing")
DELAY = _field("delay", WHOLE, "environment actions between the altered observation and the recovery")
OPERATOR = _field("operator", TEXT, "recovery operator; none = the A/A arm, forked and left alone")
FACTUAL = _field("factual_success", FLAG, "success of the unaltered run")

STEP = pa.struct(
    [
        _field("index", WHOLE, "position in the episode, 0 = reset"),
        _field("kind", TEXT, "reset, act, think, unparseable, recover, give-up"),
        _field("output", TEXT, "the agent's text of the turn; of a recover step the harness's line", True),
        _field("action", TEXT, "text sent to the environment, null where nothing was", True),
        _field("observation_true", TEXT, "the environment's reply, null where nothing was sent", True),
        _field("observation_shown", TEXT, "the text the agent was shown", True),
        _field("state_hash", TEXT, "sha256 of true observation, facts and admissible actions after the step"),
        _field("transcript_hash", TEXT, "running sha256 of all messages up to this step's reply"),
        _field("rejection", TEXT, "why the environment refused: shared-place, rejected; null where it did not", True),
        _field(
            "prompt_tokens",
            WHOLE,
            "prompt tokens of the model call that made the step, null where there was none or none are counted",
            True,
        ),
        _field("completion_tokens", WHOLE, "completion tokens of that call, null likewise", True),
    ]
)

EPISODE = [
    TASK,
    CONDITION,
    _field(
        "agent",
        TEXT,
        "sha256 of the agent's identity (kind, parameters, code, model revision), prompt and harness settings",
    ),
    _field("success", FLAG, "the goal held when the episode ended"),
    _field("exit", TEXT, "success, turn-limit, action-limit, context-limit, gave-up, infrastructure"),
    _field("turns", WHOLE, "model calls in the whole episode"),
    _field("actions", WHOLE, "environment actions in the whole episode, an operator's look included"),
    _field("altered_at", WHOLE, "k: the environment action whose reply was altered, 1-based", True),
    _field(
        "steps", pa.list_(pa.field("item", STEP, nullable=False)), "steps in order; of a branch those after the fork"
    ),
    _field(
        "transcript_hash", TEXT, "running sha256 of all messages: of a trajectory at its end, of a branch at its fork"
    ),
    _field(
        "prompt_tokens",
        WHOLE,
        "prompt tokens of the model calls made by this run (a replayed prefix makes none), null where not counted",
        True,
    ),
    _field(
        "completion_tokens",
        WHOLE,
        "completion tokens of the model calls made by this run, null where not counted",
        True,
    ),
    _field(
        "excluded",
        TEXT,
        "why there is no outcome: state-mismatch, transcript-mismatch, infrastructure, or trunk: and its reason; null: there is one",
        True,
    ),
    _field(
        "episode_key",
        TEXT,
        "key of the episode in the store; null where none was played to an outcome (carried forward, excluded)",
        True,
    ),
]

# What an episode spends besides its recovery: of the trunk (0) and of the branch (m), null in tables that don't tell.
SPENT = [
    _field(f"{kind}_{side}", WHOLE, f"{meaning} of the {whose}{more}", True)
    for kind, meaning, more in (
        ("turns", "turns in the whole episode", ""),
        ("actions", "environment actions in the whole episode", ""),
        ("prompt_tokens", "prompt tokens of the model calls after the fork", "; null where not counted"),
        ("completion_tokens", "completion tokens of these calls", "; null where not counted"),
    )
    for side, whose in (("0", "trunk"), ("m", "branch"))
]

SIGNALS = ("p_err", "p_0", "p_1", "s_R", "s_H", "u")

SCHEMAS: dict[str, pa.Schema] = {
    "games": pa.schema(
        [
            TASK,
            FOLDER,
            _field("split", TEXT, "train, valid_seen or valid_unseen"),
            TASK_TYPE,
            _field("path", TEXT, "game file, relative to the games' root"),
            _field("sha256", TEXT, "sha256 of the game file"),
            _field("verb", TEXT, "the grammar's verb for placing: move or put"),
            _field("walkthrough_actions", WHOLE, "actions of the stored walkthrough"),
            _field("receptacles", WHOLE, "receptacles in the game"),
            _field("objects", WHOLE, "objects in the game, scenery included"),
        ]
    ),
    "translations": pa.schema(
        [
            TASK,
            _field("sha256", TEXT, "sha256 of the game file that was translated"),
            _field("translation", pa.large_binary(), "versioned, compressed translation of the game"),
        ]
    ),
    "candidates": pa.schema(
        [
            COHORT,
            _field("role", TEXT, "measure, fit or evaluate"),
            _field("rank", WHOLE, "order in which the cohort is filled, 0-based"),
            TASK,
            FOLDER,
            TASK_TYPE,
            _field("sha256", TEXT, "sha256 of the game file"),
        ]
    ),
    "cohorts": pa.schema(
        [
            COHORT,
            _field("role", TEXT, "measure, fit or evaluate"),
            TASK,
            FOLDER,
            TASK_TYPE,
            _field("feasible", FLAG, "in the cohort: its factual run allows every condition of the study"),
            _field("excluded", TEXT, "why the task fell out, null where it did not", True),
            _field("factual_success", FLAG, "success of the unaltered run, null where it did not finish", True),
            _field("factual_actions", WHOLE, "L: environment actions of the unaltered run", True),
            _field("altered_at", WHOLE, "k = max(1, ceil(fraction * L))", True),
        ]
    ),
    "trajectories": pa.schema(EPISODE),
    "forks": pa.schema(
        [
            *EPISODE,
            _field("delay", WHOLE, "d: environment actions between the altered observation and the fork"),
            OPERATOR,
            _field("operator_hash", TEXT, "sha256 of the operator: its name, line, action and reply"),
            _field("fork_action", WHOLE, "k + d: the fork stands after the reply to this action"),
            _field("state_hash", TEXT, "state hash at the fork, equal to the trunk's"),
            _field("final_transcript_hash", TEXT, "running sha256 of all messages at the end of the branch"),
            _field("intervened", FLAG, "an operator was applied"),
            _field("carried_forward", FLAG, "the trunk had ended before the fork: its outcome stands"),
        ]
    ),
    "pairs": pa.schema(
        [
            COHORT,
            TASK,
            FOLDER,
            TASK_TYPE,
            FACTUAL,
            CONDITION,
            DELAY,
            OPERATOR,
            _field("y0", FLAG, "success of the trunk (no recovery)"),
            _field("ym", FLAG, "success of the branch (recovery by the operator)"),
            _field("cell", TEXT, "rescue, harm, kept-success, unchanged-failure"),
            _field("intervened", FLAG, "an operator was applied"),
            _field("null_alteration", FLAG, "the altered text equals the true text"),
            _field("fork_action", WHOLE, "k + d"),
            _field("state_hash", TEXT, "state hash at the fork"),
            _field("transcript_hash", TEXT, "transcript hash at the fork"),
            _field("trunk_key", TEXT, "key of the trunk's episode in the store, null where the tables name none", True),
            _field("branch_key", TEXT, "key of the branch's episode, null where it was carried forward", True),
            *SPENT,
        ]
    ),
    "exclusions": pa.schema(
        [
            COHORT,
            TASK,
            _field("condition", TEXT, "condition, null where the whole task fell out", True),
            _field("delay", WHOLE, "delay, null where the whole task or trunk fell out", True),
            _field("operator", TEXT, "operator, null where the whole task or trunk fell out", True),
            _field("reason", TEXT, "why the unit is not in the pairs"),
        ]
    ),
    "effects": pa.schema(
        [
            COHORT,
            _field("population", TEXT, "factual-success or complete"),
            CONDITION,
            DELAY,
            OPERATOR,
            _field("n", WHOLE, "paired units: the denominator; one per task unless keys were pooled"),
            _field("tasks", WHOLE, "tasks that the units come from"),
            _field("rescue", WHOLE, "units 0 -> 1"),
            _field("harm", WHOLE, "units 1 -> 0"),
            _field("kept_success", WHOLE, "units 1 -> 1"),
            _field("unchanged_failure", WHOLE, "units 0 -> 0"),
            _field(
                "null_alterations", WHOLE, "units whose altered text equals the true text, null where not known", True
            ),
            _field("effect_pp", REAL, "rescue rate - harm rate, percentage points"),
            _field("ci_low_pp", REAL, "95% interval, bootstrap over tasks, percentage points"),
            _field("ci_high_pp", REAL, "95% interval, bootstrap over tasks, percentage points"),
            _field("ci_folder_low_pp", REAL, "the same, bootstrap over task folders; null without folders", True),
            _field("ci_folder_high_pp", REAL, "the same, bootstrap over task folders; null without folders", True),
            _field("no_null_n", WHOLE, "n without null alterations; null where they are not known", True),
            _field("no_null_rescue", WHOLE, "rescues without null alterations", True),
            _field("no_null_harm", WHOLE, "harms without null alterations", True),
            _field("no_null_effect_pp", REAL, "effect without null alterations, null where nothing is left", True),
            _field("no_null_ci_low_pp", REAL, "its 95% interval, percentage points", True),
            _field("no_null_ci_high_pp", REAL, "its 95% interval, percentage points", True),
            _field("mcnemar_p", REAL, "exact two-sided McNemar p"),
            _field(
                "holm_p", REAL, "the same (sign-flip where a task has several units), Holm over conditions x delays"
            ),
            _field(
                "sign_flip_p",
                REAL,
                "exact two-sided sign-flip p on cluster sums; McNemar's p where a task has one unit",
            ),
            _field(
                "aa_flip_rate",
                REAL,
                "share of A/A branches that differ from their trunk, null without an A/A arm",
                True,
            ),
        ]
    ),
    "oof": pa.schema(
        [
            TASK,
            CONDITION,
            DELAY,
            _field("fold", WHOLE, "fold in which the row was held out"),
            *[
                _field(name, REAL, meaning)
                for name, meaning in [
                    ("p_err", "probability that the observation was wrong"),
                    ("p_0", "probability of success without later recovery"),
                    ("p_1", "probability of success after refreshing now"),
                    ("s_R", "(1 - p_0) * p_1, a ranking signal"),
                    ("s_H", "p_0 * (1 - p_1), a ranking signal"),
                    ("u", "s_R - lambda * s_H"),
                    ("p_rescue", "joint-outcome model: probability that the router's operator rescues here"),
                    ("p_harm", "joint-outcome model: probability that it harms here"),
                    ("u_joint", "p_rescue - lambda * p_harm"),
                ]
            ],
        ]
    ),
}

# Columns that tables of others, and of earlier versions, may lack; they count as null.
OPTIONAL: dict[str, tuple[str, ...]] = {
    "trajectories": ("episode_key",),
    "forks": ("episode_key",),
    "pairs": ("trunk_key", "branch_key", *(field.name for field in SPENT)),
}

# What names a row: no two rows of a table share it.
KEYS: dict[str, tuple[str, ...]] = {
    "games": ("task",),
    "translations": ("task",),
    "candidates": ("cohort", "task"),
    "cohorts": ("cohort", "task"),
    "trajectories": ("task",),
    "effects": ("cohort", "population", "condition", "delay", "operator"),
}

MOMENT = pa.struct(
    [
        DELAY,
        *[_field(name, REAL, SCHEMAS["oof"].field(name).metadata[b"meaning"].decode()) for name in SIGNALS],
        _field("intervene", FLAG, "the router's answer"),
    ]
)
SCHEMAS["live"] = pa.schema(
    [
        TASK,
        FOLDER,
        *[field for field in EPISODE if field.name not in ("task", "steps", "transcript_hash", "episode_key")],
        _field("transcript_hash", TEXT, "running sha256 of all messages at the end of the episode"),
        _field("intervened", FLAG, "the router intervened"),
        _field("delay", WHOLE, "delay at which the router intervened, null where it did not", True),
        _field("moments", pa.list_(pa.field("item", MOMENT, nullable=False)), "candidate moments asked, in order"),
        _field("lookup_delay", WHOLE, "delay at which the look-up evaluation intervenes, null for never", True),
        _field("lookup_success", FLAG, "outcome of the look-up evaluation"),
        _field("difference", TEXT, "how the episode differs from its look-up, null where it does not", True),
    ]
)


def decisions_schema(features: list[str], others: Sequence[str] = ()) -> pa.Schema:
    """Schema of router/decisions.parquet with the given feature names (each starts with `x_`) and further operators."""
    return pa.schema(
        [
            COHORT,
            TASK,
            FOLDER,
            CONDITION,
            DELAY,
            _field("live", FLAG, "the trunk was still going at this candidate moment"),
            FACTUAL,
            _field("y0", FLAG, "success of the trunk"),
            _field("ym", FLAG, "success of the branch that intervened at this moment"),
            *[
                _field(f"ym_{name}", FLAG, f"success of the branch of {name} at this moment, null without one", True)
                for name in others
            ],
            *[
                _field(name, REAL, "feature of the prefix up to the candidate moment, null where not live", True)
                for name in features
            ],
        ]
    )
