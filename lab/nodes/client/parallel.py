"""Call a function for many items at once, and report all failures together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import urllib3

from lab.nodes.client.api import ApiError

WORKERS = 12
SHOWN = 10
Item = TypeVar("Item")


def each(items: Sequence[Item], function: Callable[[Item], object]) -> None:
    """Call the function for every item, up to WORKERS at once. A failure doesn't stop the others.

    Raises RuntimeError with the first SHOWN problems.
    """

    def attempt(item: Item) -> str:
        try:
            function(item)
        except (RuntimeError, ApiError, urllib3.exceptions.HTTPError, OSError) as error:
            return str(error)
        return ""

    with ThreadPoolExecutor(WORKERS) as pool:
        problems = [problem for problem in pool.map(attempt, items) if problem]
    if problems:
        more = f" and {len(problems) - SHOWN} more" if len(problems) > SHOWN else ""
        raise RuntimeError("; ".join(problems[:SHOWN]) + more)
