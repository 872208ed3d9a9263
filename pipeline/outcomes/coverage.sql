-- Units without exactly one trunk and one branch, and records that no unit asked for; empty when all is well.
WITH trunk_count AS (
    SELECT cohort, task, condition, count(*) AS records FROM trunk GROUP BY ALL
),
branch_count AS (
    SELECT cohort, task, condition, delay, operator, count(*) AS records FROM branch GROUP BY ALL
),
planned_trunk AS (
    SELECT DISTINCT cohort, task, condition FROM planned
)
SELECT CASE WHEN records IS NULL THEN 'missing trunk' ELSE 'double trunk' END AS problem,
    cohort, task, condition, NULL AS delay, NULL AS operator
FROM planned_trunk LEFT JOIN trunk_count USING (cohort, task, condition)
WHERE records IS DISTINCT FROM 1
UNION ALL
SELECT CASE WHEN records IS NULL THEN 'missing branch' ELSE 'double branch' END, cohort, task, condition, delay, operator
FROM planned LEFT JOIN branch_count USING (cohort, task, condition, delay, operator)
WHERE records IS DISTINCT FROM 1
UNION ALL
SELECT 'task twice in its cohort', cohort, task, NULL, NULL, NULL
FROM cohort_tasks GROUP BY cohort, task HAVING count(*) > 1
UNION ALL
SELECT 'unplanned trunk', cohort, task, condition, NULL, NULL
FROM trunk_count ANTI JOIN planned_trunk USING (cohort, task, condition)
UNION ALL
SELECT 'unplanned branch', cohort, task, condition, delay, operator
FROM branch_count ANTI JOIN planned USING (cohort, task, condition, delay, operator)
UNION ALL
SELECT 'carried forward with another outcome than its trunk', branch.cohort, branch.task, branch.condition, delay, operator
FROM branch JOIN trunk USING (cohort, task, condition)
WHERE carried_forward AND branch.excluded IS NULL AND trunk.excluded IS NULL AND branch.success <> trunk.success
ORDER BY ALL
