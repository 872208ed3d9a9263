-- Units that have both operators at the same moment, with both outcomes. Views: pairs (absent optional columns are null)
-- and operator_settings(operator, versus_operator, condition, delay, by_population, by_folder), null condition or delay
-- meaning each.
WITH outcome AS (
    SELECT
        cohort, task, folder, factual_success, pairs.condition, pairs.delay, pairs.operator,
        CAST(y0 AS INTEGER) AS y0, CAST(ym AS INTEGER) AS ym,
        operator_settings.operator AS wanted, versus_operator, by_population, by_folder
    FROM pairs CROSS JOIN operator_settings
    WHERE (operator_settings.condition IS NULL OR pairs.condition = operator_settings.condition)
        AND (operator_settings.delay IS NULL OR pairs.delay = operator_settings.delay)
),
both_outcomes AS (
    SELECT
        this.cohort, this.task, this.condition, this.delay, this.factual_success, this.by_population,
        CASE WHEN this.by_folder THEN this.folder ELSE this.task END AS cluster,
        this.y0, other.y0 AS y0_versus, this.ym, other.ym AS ym_versus
    FROM outcome AS this
    JOIN outcome AS other
        ON this.cohort IS NOT DISTINCT FROM other.cohort AND this.task = other.task
        AND this.condition IS NOT DISTINCT FROM other.condition AND this.delay IS NOT DISTINCT FROM other.delay
    WHERE this.operator = this.wanted AND other.operator = this.versus_operator
)
SELECT cohort, 'complete' AS population, condition, delay, cluster, task, y0, y0_versus, ym, ym_versus
FROM both_outcomes
UNION ALL
SELECT cohort, 'factual-success', condition, delay, cluster, task, y0, y0_versus, ym, ym_versus
FROM both_outcomes
WHERE by_population AND factual_success
ORDER BY ALL
