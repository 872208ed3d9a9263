"""Every key of a study, one model a section (protocol.md; a decision that the paper leaves open, marked [D] there, is a key).

The models are the only source: `config/schema.json` and the table in `config/README.md` are generated from them.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

TASK_TYPES = (
    "look_at_obj_in_light",
    "pick_and_place_simple",
    "pick_clean_then_place_in_recep",
    "pick_cool_then_place_in_recep",
    "pick_heat_then_place_in_recep",
    "pick_two_obj_and_place",
)
TaskType = Literal[TASK_TYPES]
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]*$", max_length=60)]
Share = Annotated[float, Field(gt=0, lt=1)]
Count = Annotated[int, Field(ge=1)]
Seed = Annotated[int, Field(ge=0, lt=2**32)]


def key(meaning: str, default: Any = ..., unit: str = "", **limits: Any) -> Any:
    """A documented key: its meaning and unit go to the schema and to config/README.md."""
    return Field(default, description=meaning, json_schema_extra={"unit": unit} if unit else None, **limits)


def fixed(meaning: str, value: str) -> Any:
    """A decision with one choice so far: a key, so that it is recorded with the results; no stage reads it."""
    return Field(value, description=meaning, json_schema_extra={"fixed": True})


class Section(BaseModel):
    """Base of all sections: a key that doesn't exist is an error, values are checked and not coerced across kinds."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, validate_default=True, allow_inf_nan=False)


class Generate(Section):
    """Games made by the project itself, of which no model has seen any."""

    seed: Seed = key("Seed of the generator: the same seed gives the same bytes.", 1)
    splits: dict[Literal["train", "valid_seen", "valid_unseen"], Count] = key(
        "Number of games to make for each split; splits share no task folder.",
        {"train": 120, "valid_seen": 90},
        "games",
    )
    task_types: list[TaskType] = key("Task types to make, in equal shares.", list(TASK_TYPES), min_length=1)
    verb: Literal["move", "put"] = key("The grammar's verb for placing an object.", "move")


class Games(Section):
    """Where the games come from."""

    source: Literal["generated", "alfworld"] = key("Generate games, or read the official ones.", "generated")
    root: str | None = key(
        "Folder of the official games (the one that holds json_2.1.1); null: the environment variable ALFWORLD_DATA. "
        "Only for source alfworld.",
        None,
    )
    generate: Generate = key("The generator's settings. Only for source generated.", Generate())


class Cohort(Section):
    """A set of tasks that are measured, fitted or evaluated together."""

    role: Literal["measure", "fit", "evaluate"] = key(
        "measure: effects only; fit: effects, and the router is fitted here; evaluate: the frozen router is tested here."
    )
    split: Literal["train", "valid_seen", "valid_unseen"] = key("Split the tasks are drawn from.")
    size: Count = key("Feasible tasks wanted [D: a target, filled until enough are feasible].", unit="tasks")
    seed: Seed = key("Seed of the draw.", 0)
    reserve: float = key(
        "Candidates drawn beyond the size, as a share of it, since some tasks are not feasible.",
        0.5,
        "share",
        ge=0,
        le=100,
    )
    task_types: list[TaskType] | None = key("Task types to draw from; null: all.", None, min_length=1)


class AgentSection(Section):
    """The agent: text in, text out."""

    kind: str = key("A registered agent: scripted (embedded) or openai (any OpenAI-compatible endpoint).", "scripted")
    parameters: dict[str, Any] = key("The agent's own parameters; docs/agents.md lists them by kind.", {})


class Harness(Section):
    """The ReAct loop around the agent."""

    turns: Count = key("Model calls an episode may use.", 49, "turns")
    actions: Count = key("Environment actions an episode may use.", 64, "actions")
    thought_reply: str = key("Reply to a turn that holds only a thought.", "OK.")
    unparseable_reply: str = key(
        "Reply to an output that can't be parsed; it is not sent to the environment and costs a turn [D].",
        "No action was found. Answer with one thought line or one action line.",
    )
    admissible_in_prompt: bool = key(
        "Show the admissible actions with every observation, taken from the same step as the shown text [D].", False
    )
    recovery_counts_action: bool = key("A recovery's look counts towards the action budget [D].", True)
    recovery_counts_turn: bool = key("A recovery counts towards the turn budget [D].", False)


class Alteration(Section):
    """Which observation is altered, and how."""

    fraction: Share = key("Position of the altered reply: k = max(1, ceil(fraction * L)) [D].", 0.25, "share of L")
    length: Count = key("Consecutive replies that are altered; 1 = one-shot [D].", 1, "observations")
    first_observation: bool = key("Observation 0 (room text without its task line) may serve as stale text [D].", True)
    missing_text: str = key("Text shown under the condition missing [D].", "Observation unavailable.")


class RecoveryTexts(Section):
    """Texts of the recovery operators; their hash stands in the records."""

    look_line: str = key("Line shown as the agent's own when an operator looks.", "look")
    withheld_text: str = key("Reply shown by content-ablated instead of the look's [D].", "[observation withheld]")
    replan_line: str = key("Line shown as the agent's own by replan-only.", "think: plan again")
    replan_text: str = key("Reply shown by replan-only [D].", "Plan again from the observations so far.")


class Protocol(Section):
    """Conditions, delays and operators of the paired forks."""

    conditions: list[str] = key(
        "What the agent is shown at observation k: clean, stale-N (N >= 1), missing.",
        ["clean", "stale-2", "stale-1", "missing"],
        min_length=1,
    )
    delays: list[Annotated[int, Field(ge=0)]] = key(
        "Environment actions between the altered observation and the recovery.", [0, 1, 2, 4], "actions", min_length=1
    )
    operators: list[str] = key(
        "Recovery operators; none is the A/A arm (fork, apply nothing), whose flips measure the serving stack's noise [D].",
        ["none", "refresh", "content-ablated", "replan-only"],
        min_length=1,
    )
    alteration: Alteration = key("The altered observation.", Alteration())
    texts: RecoveryTexts = key("The operators' texts.", RecoveryTexts())
    delay_unit: Literal["actions"] = fixed(
        "d counts agent actions that reached the environment, valid or not [D].", "actions"
    )
    mismatch: Literal["drop-task"] = fixed(
        "A branch whose rebuilt prefix differs from its trunk drops the task from its cohort, by name [D].", "drop-task"
    )
    disjoint_by: Literal["folder"] = fixed("Cohorts share no game and no task folder [D].", "folder")

    @model_validator(mode="after")
    def _no_repeats(self) -> "Protocol":
        for name in ("conditions", "delays", "operators"):
            values = getattr(self, name)
            if len(set(values)) != len(values):
                raise ValueError(f"{name} lists a value twice: {values}")
        return self


class Statistics(Section):
    """Intervals and tests."""

    resamples: Annotated[int, Field(ge=100)] = key("Bootstrap resamples over tasks [D].", 10_000, "resamples")
    seed: Seed = key("Seed of bootstrap and Monte Carlo tests [D].", 0)
    interval: Literal["percentile"] = fixed("Bootstrap interval: percentile, linear interpolation [D].", "percentile")
    holm_over: Literal["conditions x delays"] = fixed(
        "Family of the adjusted p of an operator's rows [D].", "conditions x delays"
    )
    null_alterations: Literal["keep", "exclude"] = key(
        "Units whose altered text equals the true text: kept and flagged, or excluded and counted [D].", "keep"
    )


class Router(Section):
    """The Causal Intervention Router: features, models, thresholds (protocol.md section 3)."""

    operator: str = key("Operator the router decides about.", "refresh")
    operators: list[str] | None = key(
        "Operators that operator choice picks among, router.operator besides; null: every measured one but none and content-ablated, which are controls [D].",
        None,
    )
    delays: list[Annotated[int, Field(ge=0)]] = key(
        "Candidate moments, in the order they are asked.", [1, 2, 4], "actions", min_length=1
    )
    population: Literal["factual-success", "complete"] = key(
        "Tasks the models are fitted on: those that succeed factually, or all.", "factual-success"
    )
    conditions: list[str] = key(
        "Conditions of the rows the models are fitted on [D].", ["clean", "stale-2"], min_length=1
    )
    C: float = key("Inverse strength of the l2 penalty.", 0.1, gt=0)
    lambda_: float = key("Weight of s_H in u = s_R - lambda * s_H.", 2.0, ge=0, alias="lambda")
    epsilon: float = key("Limit of clean harm, as a share of clean episodes.", 0.02, "share", ge=0, le=1)
    confidence: float = key(
        "Confidence with which the certified router keeps clean harm within epsilon [D].", 0.95, "share", gt=0, lt=1
    )
    folds: Annotated[int, Field(ge=2)] = key(
        "Folds of the out-of-fold predictions, grouped by task folder.", 5, "folds"
    )
    seed: Seed = key("Seed of the folds' shuffle.", 0)
    folds_by: Literal["folder"] = fixed("Folds keep a task folder's rows together [D].", "folder")
    class_weight: Literal["none"] = fixed("Rows count alike in the three models [D].", "none")
    ties: Literal["harms, interventions, alpha, beta, gamma"] = fixed(
        "Of equally good thresholds: fewer clean harms, fewer interventions, larger alpha, beta, gamma [D].",
        "harms, interventions, alpha, beta, gamma",
    )
    infeasible: Literal["never"] = fixed("What the router does where no thresholds keep the limit [D].", "never")
    gamma_quantiles: Annotated[int, Field(ge=0, le=1000)] = key(
        "Out-of-fold quantiles of u tried for gamma, besides 0 [D].", 19, "quantiles"
    )

    @model_validator(mode="after")
    def _asks_forwards(self) -> "Router":
        if self.delays != sorted(set(self.delays)):
            raise ValueError(
                f"delays: moments are asked as they come, so they must rise and stand once each; found {self.delays}"
            )
        if self.operator == "none":
            raise ValueError("operator: none is the A/A arm, which recovers nothing; name a recovery")
        return self


class Study(Section):
    """One study: results stand under results/<study>/."""

    study: Name = key(
        "Name of the study and of its folder under results/. Renaming re-runs nothing but moves the results."
    )
    store: str = key(
        "Folder of the episode store, relative to the working directory: studies that name the same one share their "
        "finished episodes (docs/store.md). Another folder re-runs nothing by itself.",
        "results/store",
        min_length=1,
    )
    games: Games = key("Where the games come from.", Games())
    cohorts: dict[Name, Cohort] = key("The cohorts, by name; disjoint by game and by task folder [D].", min_length=1)
    agent: AgentSection = key("The agent.", AgentSection())
    harness: Harness = key("The loop around the agent.", Harness())
    protocol: Protocol = key("Conditions, delays, operators.", Protocol())
    statistics: Statistics = key("Intervals and tests.", Statistics())
    router: Router = key("The router.", Router())

    @model_validator(mode="after")
    def _fits_together(self) -> "Study":
        roles = [cohort.role for cohort in self.cohorts.values()]
        for role in ("fit", "evaluate"):
            if roles.count(role) != 1:
                raise ValueError(f"cohorts: exactly one cohort must have role {role}, found {roles.count(role)}")
        for label, part, whole in (
            ("router.delays", self.router.delays, self.protocol.delays),
            ("router.conditions", self.router.conditions, self.protocol.conditions),
            ("router.operator", [self.router.operator], self.protocol.operators),
            ("router.operators", self.router.operators or [], self.protocol.operators),
        ):
            if missing := [value for value in part if value not in whole]:
                raise ValueError(f"{label}: {missing} is not measured; protocol has {whole}")
        if "none" in (self.router.operators or []):
            raise ValueError("router.operators: none applies nothing, it can't be chosen; leave it out")
        if "clean" not in self.router.conditions:
            raise ValueError("router.conditions: clean is needed, its harms are what the router's limit is about")
        if set(self.router.conditions) == {"clean"}:
            raise ValueError(
                "router.conditions: at least one condition besides clean is needed to learn when an observation is wrong"
            )
        if late := [delay for delay in self.protocol.delays if delay >= self.harness.actions]:
            raise ValueError(
                f"protocol.delays: {late} can't be served within the budget of {self.harness.actions} actions"
            )
        for name, cohort in self.cohorts.items():
            if self.games.source == "generated" and cohort.split not in self.games.generate.splits:
                raise ValueError(
                    f"cohorts.{name}.split: {cohort.split} is not generated; add it to games.generate.splits"
                )
        return self
