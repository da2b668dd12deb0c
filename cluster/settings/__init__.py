"""The stack file as frozen, checked values.

`load_stack_file` serves commands that read a file; `from_engine` serves the running program. Both
raise SettingsError, which holds every problem of the file with its path and what to do about it.
"""

from cluster.settings.load import from_engine, load_stack_file
from cluster.settings.problems import Problem, SettingsError
from cluster.settings.stack import Settings

__all__ = ["Problem", "Settings", "SettingsError", "from_engine", "load_stack_file"]
