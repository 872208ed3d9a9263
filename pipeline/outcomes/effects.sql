-- Cell counts of each task in each group, with and without null alterations. The A/A arm is no recovery: it is a group of
-- its own where operators are told apart, and left out where they are pooled. Table: effect_rows (effect_rows.sql).
SELECT
    cohort, population, condition, delay, operator, task, folder,
    CAST(count(*) AS BIGINT) AS n,
    CAST(sum(rescue) AS BIGINT) AS rescue,
    CAST(sum(harm) AS BIGINT) AS harm,
    CAST(sum(kept_success) AS BIGINT) AS kept_success,
    CAST(sum(unchanged_failure) AS BIGINT) AS unchanged_failure,
    CAST(sum(null_alteration) AS BIGINT) AS null_alterations,
    -- One unit whose alteration is not known makes the count unknown.
    count(null_alteration) = count(*) AS alterations_known,
    CAST(count(*) FILTER (WHERE null_alteration = 0) AS BIGINT) AS no_null_n,
    CAST(coalesce(sum(rescue) FILTER (WHERE null_alteration = 0), 0) AS BIGINT) AS no_null_rescue,
    CAST(coalesce(sum(harm) FILTER (WHERE null_alteration = 0), 0) AS BIGINT) AS no_null_harm
FROM effect_rows
WHERE by_operator OR NOT is_aa
GROUP BY ALL
ORDER BY cohort, population, operator, condition, delay, task, folder
