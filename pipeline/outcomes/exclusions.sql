-- outcomes/exclusions.parquet: candidates that fell out before any fork (whole tasks), then excluded units.
SELECT cohort, task, NULL AS condition, NULL AS delay, NULL AS operator, excluded AS reason
FROM cohort_tasks
WHERE excluded IS NOT NULL
UNION ALL
SELECT cohort, task, condition, delay, operator, reason
FROM settled
WHERE reason IS NOT NULL
ORDER BY cohort, task, condition NULLS FIRST, delay NULLS FIRST, operator NULLS FIRST
