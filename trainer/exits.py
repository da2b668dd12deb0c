"""Exit statuses, chosen so that whoever restarts the process knows whether another try can help.

They follow the rule of the Kubeflow training operator's `restartPolicy: ExitCode`: 1 to 127 is permanent,
128 to 255 is worth a retry.
"""

from __future__ import annotations

import os
import sys
from typing import NoReturn

FINISHED = 0
CONFIG = 2
"""The job file is wrong, or contradicts the run that the output folder already holds."""
DIVERGED = 3
"""The loss or the gradients were not finite, and the policy says stop."""
UNHEALTHY = 4
"""A node is bad. Another start on the same nodes will not help."""
DAMAGED = 5
"""No checkpoint of the run is whole: a person has to say whether it shall begin anew."""
RETRY = 138
"""Something failed that another start, from the last checkpoint, may get past: a lost peer, a timeout, a full disk."""
TERMINATED = 143
"""A signal asked for the end; a checkpoint was saved (128 + SIGTERM)."""


PERMANENT = (CONFIG, DIVERGED, UNHEALTHY, DAMAGED)
"""Of these, another try ends the same."""


def at_once(status: int) -> NoReturn:
    """End this process now: threads of process groups, broken ones above all, and of a save in the air would delay the
    end, or turn it into a crash whose status says something else. What is to be kept has to be written before."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


class Failure(Exception):
    """An error whose message is meant for a person, with the status that the process shall end with."""

    def __init__(self, message: str, status: int = RETRY) -> None:
        super().__init__(message)
        self.status = status
