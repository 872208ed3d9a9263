"""The two ways in which a command can refuse, and their exit codes (contracts.md, "Exit codes").

Everything a user can cause is raised as one of these; any other exception is a fault of ours and keeps its traceback.
"""


class CirError(Exception):
    """Base of the errors that are shown to a user as one message, without a traceback."""

    exit_code = 2


class BadInput(CirError):
    """The call, the config or an input file is wrong. The message names the file, key or row, what was expected, and what to do."""

    exit_code = 2


class CheckFailed(CirError):
    """The inputs were readable, but a check on them failed (verification, audit, acceptance)."""

    exit_code = 1
