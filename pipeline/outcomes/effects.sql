-- Cell counts of each cluster (task or folder) in each group. The A/A arm is no recovery: it is a group of its own where
-- operators are told apart, and left out where they are pooled. Table: effect_rows (effect_rows.sql).
SELECT
    cohort, population, condition, delay, operator, cluster,
    CAST(count(*) AS BIGINT) AS n,
    CAST(count(DISTINCT task) AS BIGINT) AS tasks,
    CAST(sum(rescue) AS BIGINT) AS rescue,
    CAST(sum(harm) AS BIGINT) AS harm,
    CAST(sum(kept_success) AS BIGINT) AS kept_success,
    CAST(sum(unchanged_failure) AS BIGINT) AS unchanged_failure,
    CAST(sum(null_alteration) AS BIGINT) AS null_alterations
FROM effect_rows
WHERE by_operator OR NOT is_aa
GROUP BY ALL
ORDER BY cohort, population, operator, condition, delay, cluster
