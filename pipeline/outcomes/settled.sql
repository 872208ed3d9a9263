-- Every planned unit with its outcomes and, where it has none, the reason. Views: planned, trunk, branch, dropped_task
-- (units.sql) and unit_settings(exclude_null_alterations).
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
