-- outcomes/pairs.parquet: the units that have both outcomes.
SELECT * EXCLUDE (reason)
FROM settled
WHERE reason IS NULL
ORDER BY cohort, task, condition, delay, operator
