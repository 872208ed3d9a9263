-- Tasks that have both conditions, with their two effects. Views: pairs (absent optional columns are null) and
-- contrast_settings(condition, versus, delay, operator, by_population, by_folder), null delay or operator meaning each.
WITH effect AS (
    SELECT
        pairs.cohort, pairs.task, pairs.folder, pairs.factual_success, pairs.condition, pairs.delay, pairs.operator,
        CAST(ym AS INTEGER) - CAST(y0 AS INTEGER) AS effect,
        contrast_settings.condition AS wanted, versus, by_population, by_folder
    FROM pairs CROSS JOIN contrast_settings
    WHERE (contrast_settings.delay IS NULL OR pairs.delay = contrast_settings.delay)
        AND (contrast_settings.operator IS NULL OR pairs.operator = contrast_settings.operator)
),
both_effects AS (
    SELECT
        this.cohort, this.task, this.delay, this.operator, this.factual_success, this.by_population,
        CASE WHEN this.by_folder THEN this.folder ELSE this.task END AS cluster,
        this.effect AS effect_condition,
        other.effect AS effect_versus
    FROM effect AS this
    JOIN effect AS other
        ON this.cohort IS NOT DISTINCT FROM other.cohort AND this.task = other.task
        AND this.delay IS NOT DISTINCT FROM other.delay AND this.operator IS NOT DISTINCT FROM other.operator
    WHERE this.condition = this.wanted AND other.condition = this.versus
)
SELECT cohort, 'complete' AS population, operator, delay, cluster, effect_condition, effect_versus FROM both_effects
UNION ALL
SELECT cohort, 'factual-success', operator, delay, cluster, effect_condition, effect_versus
FROM both_effects
WHERE by_population AND factual_success
ORDER BY ALL
