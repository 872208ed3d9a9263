"""Agents: messages in, text out. The scripted one is embedded; others are registered by name in `registry`."""
