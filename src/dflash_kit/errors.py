"""The three ways a command ends badly. A user sees one line each, never a traceback."""


class KitError(Exception):
    """Base: the message is the one line a user reads; `exit_code` is the process's exit code."""

    exit_code = 1


class CheckFailed(KitError):
    """A check ran and its answer is no (exit 1)."""

    exit_code = 1


class InputError(KitError):
    """What the user gave cannot be used: file, field, got, wanted, next step (exit 2)."""

    exit_code = 2


class Undetermined(KitError):
    """The answer could not be found out, so it is neither yes nor no (exit 3)."""

    exit_code = 3
