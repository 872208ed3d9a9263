"""CIR pipeline: paired forks of LLM-agent trajectories, recovery operators, and a Causal Intervention Router."""

__version__ = "0.1.0"
