-- Planned units and what was recorded for each.
-- Views it reads: cohort_tasks (games/cohorts.parquet), wanted_conditions(condition), wanted_delays(delay),
-- wanted_operators(operator), trunk_files and branch_files (with the column filename, since the cohort stands in the path).

CREATE TEMP TABLE planned AS
SELECT cohort, task, folder, task_type, factual_success, condition, delay, operator
FROM cohort_tasks, wanted_conditions, wanted_delays, wanted_operators
WHERE feasible;

CREATE TEMP TABLE trunk AS
SELECT
    regexp_extract(filename, '^.*[/\\]cohort=([^/\\]+)[/\\]', 1) AS cohort,
    task,
    condition,
    success,
    episode_key,
    turns,
    actions,
    prompt_tokens,
    completion_tokens,
    -- Cast by name: in files of earlier versions the steps lack their tokens, which are null then.
    CAST(steps AS STRUCT(kind VARCHAR, prompt_tokens BIGINT, completion_tokens BIGINT)[]) AS spent,
    CASE WHEN exit = 'infrastructure' THEN coalesce(excluded, 'infrastructure') ELSE excluded END AS excluded,
    -- The altered reply reads as the true one. A list of admissible actions, where the prompt carries one, is set aside.
    condition <> 'clean' AND coalesce(
        split_part(altered.observation_shown, chr(10) || 'Admissible actions: ', 1) = altered.observation_true, FALSE
    ) AS null_alteration
FROM (
    SELECT *, list_filter(steps, lambda step: step.kind = 'act')[altered_at] AS altered
    FROM trunk_files
);

CREATE TEMP TABLE branch AS
SELECT
    regexp_extract(filename, '^.*[/\\]cohort=([^/\\]+)[/\\]', 1) AS cohort,
    task,
    condition,
    delay,
    operator,
    success,
    episode_key,
    turns,
    actions,
    prompt_tokens,
    completion_tokens,
    len(list_filter(steps, lambda step: step.kind <> 'recover')) AS own_turns,
    intervened,
    carried_forward,
    CASE WHEN exit = 'infrastructure' THEN coalesce(excluded, 'infrastructure') ELSE excluded END AS excluded,
    fork_action,
    state_hash,
    transcript_hash
FROM branch_files;

-- A task whose replay ever differed from its origin can't be trusted anywhere: the whole task leaves its cohort.
CREATE TEMP TABLE dropped_task AS
SELECT cohort, task FROM trunk WHERE excluded LIKE '%mismatch'
UNION
SELECT cohort, task FROM branch WHERE excluded LIKE '%mismatch';
