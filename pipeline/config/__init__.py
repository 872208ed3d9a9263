"""The study's config: pydantic models as the only source of keys, defaults, schema and documentation."""
