-- Every planned unit with its outcomes and, where it has none, the reason. Views: planned, trunk, branch, dropped_task
-- (units.sql) and unit_settings(exclude_null_alterations).
-- Tokens of a trunk's steps after the fork: null where the trunk counted none, or where one of these steps has no count.
CREATE TEMP MACRO tokens_after(counted, tokens) AS CASE
    WHEN counted IS NOT NULL AND NOT list_contains(list_transform(tokens, lambda token: token IS NULL), TRUE)
        THEN CAST(coalesce(list_sum(tokens), 0) AS BIGINT)
END;

-- Tokens of a branch, whose row holds those of its own model calls. Where it made none it spent none, if the agent counts.
CREATE TEMP MACRO tokens_of(counted, tokens, calls) AS coalesce(
    tokens, CASE WHEN counted IS NOT NULL AND calls = 0 THEN 0 END
);

CREATE TEMP TABLE settled AS
SELECT
    planned.*,
    trunk.success AS y0,
    branch.success AS ym,
    CASE
        WHEN NOT trunk.success AND branch.success THEN 'rescue'
        WHEN trunk.success AND NOT branch.success THEN 'harm'
        WHEN trunk.success THEN 'kept-success'
        ELSE 'unchanged-failure'
    END AS cell,
    branch.intervened,
    trunk.null_alteration,
    branch.fork_action,
    branch.state_hash,
    branch.transcript_hash,
    trunk.episode_key AS trunk_key,
    branch.episode_key AS branch_key,
    trunk.turns AS turns_0,
    branch.turns AS turns_m,
    trunk.actions AS actions_0,
    branch.actions AS actions_m,
    tokens_after(trunk.prompt_tokens, list_transform(after_fork, lambda step: step.prompt_tokens)) AS prompt_tokens_0,
    tokens_of(trunk.prompt_tokens, branch.prompt_tokens, own_turns) AS prompt_tokens_m,
    tokens_after(
        trunk.completion_tokens, list_transform(after_fork, lambda step: step.completion_tokens)
    ) AS completion_tokens_0,
    tokens_of(trunk.completion_tokens, branch.completion_tokens, own_turns) AS completion_tokens_m,
    CASE
        WHEN branch.excluded IS NOT NULL THEN branch.excluded
        WHEN trunk.excluded IS NOT NULL THEN 'trunk: ' || trunk.excluded
        WHEN (cohort, task) IN (SELECT (cohort, task) FROM dropped_task) THEN 'task-dropped'
        WHEN trunk.null_alteration AND exclude_null_alterations THEN 'null-alteration'
    END AS reason
FROM planned
JOIN trunk USING (cohort, task, condition)
JOIN branch USING (cohort, task, condition, delay, operator)
CROSS JOIN unit_settings
-- The agent's action fork_action is a step of kind act; the trunk's share after the fork are the steps behind it.
CROSS JOIN LATERAL (
    SELECT
        list_filter(range(1, len(spent) + 1), lambda place: spent[place].kind = 'act')[branch.fork_action] AS fork_place
)
CROSS JOIN LATERAL (
    SELECT CASE WHEN fork_place IS NULL THEN [] ELSE spent[fork_place + 1:] END AS after_fork
)
