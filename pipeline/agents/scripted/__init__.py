"""The embedded agent: deterministic, reads only the transcript, keeps a belief, acts on it (see `agent`)."""
