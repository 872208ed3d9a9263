"""Intervals and tests on paired outcomes: task bootstrap, McNemar, sign-flip, Holm (protocol.md section 4)."""
