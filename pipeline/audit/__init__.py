"""Reading back what the records say: audit, lineage, and the study as a crate. Nothing here is part of a study's results."""
