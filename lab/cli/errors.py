"""The errors that the commands show to people, each with its exit code."""

from __future__ import annotations

FAILED, REFUSED, DOWN, INTERRUPTED = 1, 2, 3, 130
"""Exit codes. Refused: nothing was changed. Down: only of `status`. 130: as shells report an end by ^C."""


class LabError(Exception):
    """What is wrong (one or more problems) and what to do about each.

    Printed without a traceback; the command exits with `exit_code`.
    """

    def __init__(self, *problems: str, exit_code: int = FAILED) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems
        self.exit_code = exit_code


class Interrupted(LabError):
    """The user ended the command (^C). The message says what to type next."""

    def __init__(self, message: str) -> None:
        super().__init__(message, exit_code=INTERRUPTED)


class EngineKilled(LabError):
    """Pulumi's engine did not end by itself, so the stack's state may lack what it had begun."""
