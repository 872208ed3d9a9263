-- Rows of a pairs table that no effect can be counted from: no outcome of 0 or 1, or one unit given twice.
-- View: pairs (absent optional columns are null).
SELECT 'y0 or ym is not 0 or 1' AS problem, cohort, task, condition, delay, operator
FROM pairs
WHERE y0 IS NULL OR ym IS NULL OR CAST(y0 AS DOUBLE) NOT IN (0, 1) OR CAST(ym AS DOUBLE) NOT IN (0, 1)
UNION ALL
SELECT 'stands ' || count(*) || ' times', cohort, task, condition, delay, operator
FROM pairs
GROUP BY cohort, task, condition, delay, operator
HAVING count(*) > 1
ORDER BY ALL
