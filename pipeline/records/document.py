"""docs/tables.md, generated from the schemas."""

import pyarrow as pa

from pipeline.records.schemas import SCHEMAS

# Table -> (path under results/<study>/, one row per).
PLACES = {
    "games": ("games/games.parquet", "game"),
    "candidates": ("games/candidates.parquet", "candidate of a cohort"),
    "translations": ("games/translations.parquet", "candidate's game"),
    "cohorts": ("games/cohorts.parquet", "candidate, settled"),
    "trajectories": (
        "trajectories/cohort=C/factual.parquet, trajectories/cohort=C/condition=E/trunk.parquet",
        "episode",
    ),
    "forks": ("forks/cohort=C/condition=E/delay=D/operator=M/part.parquet", "branch"),
    "pairs": ("outcomes/pairs.parquet", "unit (task, condition, delay, operator) with two outcomes"),
    "exclusions": ("outcomes/exclusions.parquet", "unit, trunk or task without"),
    "effects": ("outcomes/effects.parquet", "(cohort, population, condition, delay, operator)"),
    "oof": ("router/oof.parquet", "live decision row of the fit cohort"),
    "live": ("evaluation/live.parquet", "held-out episode, played with the router deciding"),
}
HEAD = """# Tables

Every table is Parquet (zstd, an explicit schema, sorted rows, no timestamps): the same study gives the same bytes. What a
column means stands in the file itself, in the field's metadata; this page is generated from the same schemas by
`cir config docs`. `router/decisions.parquet` has besides its key columns one column a feature; their names start with `x_`
and docs/router.md lists them. `router/router.json` and `evaluation/summary.json` are described there too.
"""


def tables_text() -> str:
    """The whole of docs/tables.md."""
    parts = [HEAD]
    for name, (path, unit) in PLACES.items():
        parts.append(f"## {name}\n\n`{path}`, one row per {unit}.\n\n| column | type | meaning |\n|---|---|---|")
        parts[-1] += "".join(f"\n| `{field.name}` | {_type(field)} | {_meaning(field)} |" for field in SCHEMAS[name])
        if name == "trajectories":
            steps = SCHEMAS[name].field("steps").type.value_type
            parts.append("A step:\n\n| field | type | meaning |\n|---|---|---|")
            parts[-1] += "".join(f"\n| `{field.name}` | {_type(field)} | {_meaning(field)} |" for field in steps)
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _type(field: pa.Field) -> str:
    name = f"list of {field.name}" if pa.types.is_list(field.type) else str(field.type)
    return f"{name}, may be null" if field.nullable else name


def _meaning(field: pa.Field) -> str:
    return field.metadata[b"meaning"].decode().replace("|", "\\|")
