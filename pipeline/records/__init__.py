"""Shared ground for what is written to disk: canonical JSON, digests, atomic files, table schemas, episode records."""
