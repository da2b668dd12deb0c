"""The one kind of error that the commands show to people."""

from __future__ import annotations


class LabError(Exception):
    """What is wrong (one or more problems) and what to do about each.

    Printed without a traceback; the command exits with `exit_code`.
    """

    def __init__(self, *problems: str, exit_code: int = 1) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems
        self.exit_code = exit_code
