"""Stage 5: the Causal Intervention Router: features of a prefix, models, thresholds, decisions (protocol.md section 3)."""
