"""Do the same for many items at once, and say all that went wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import urllib3

from lab.nodes.client import ApiError

WORKERS = 12
SHOWN = 10
Item = TypeVar("Item")


def each(items: Sequence[Item], function: Callable[[Item], object]) -> None:
    """Call the function for every item; one that fails keeps none of the others from being done.

    Raises RuntimeError with the first problems.
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
