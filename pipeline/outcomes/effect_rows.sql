-- Rows of a pairs table, each once per population it belongs to. Views: pairs (absent optional columns are null) and
-- effect_settings(by_cohort, by_population, by_condition, by_delay, by_operator, without_null_alterations).
CREATE TEMP TABLE effect_rows AS
WITH outcome AS (
    SELECT
        * EXCLUDE (y0, ym),
        CAST(y0 AS INTEGER) AS y0,
        CAST(ym AS INTEGER) AS ym
    FROM pairs CROSS JOIN effect_settings
    WHERE NOT (without_null_alterations AND coalesce(null_alteration, FALSE))
),
in_population AS (
    SELECT *, 'complete' AS population FROM outcome
    UNION ALL
    -- A task's outcomes count once where the populations are not told apart.
    SELECT *, 'factual-success' AS population FROM outcome WHERE factual_success AND by_population
)
SELECT
    CASE WHEN by_cohort THEN cohort END AS cohort,
    CASE WHEN by_population THEN population END AS population,
    CASE WHEN by_condition THEN condition END AS condition,
    CASE WHEN by_delay THEN delay END AS delay,
    CASE WHEN by_operator THEN operator END AS operator,
    operator IS NOT DISTINCT FROM 'none' AS is_aa,
    task,
    folder,
    CAST(y0 = 0 AND ym = 1 AS INTEGER) AS rescue,
    CAST(y0 = 1 AND ym = 0 AS INTEGER) AS harm,
    CAST(y0 = 1 AND ym = 1 AS INTEGER) AS kept_success,
    CAST(y0 = 0 AND ym = 0 AS INTEGER) AS unchanged_failure,
    CAST(null_alteration AS INTEGER) AS null_alteration,
    by_operator
FROM in_population
