-- Share of A/A branches (forked, nothing applied) that differ from their trunk: noise of the serving stack.
SELECT cohort, population, condition, delay, CAST(sum(rescue + harm) AS DOUBLE) / count(*) AS aa_flip_rate
FROM effect_rows
WHERE is_aa
GROUP BY cohort, population, condition, delay
