"""Processes that all believe to be number 1, as the first processes of pods do, and that begin at the same moment."""

from __future__ import annotations

import multiprocessing
import os
import traceback
from collections.abc import Callable
from typing import Any


def crowd(count: int, body: Callable[..., Any], *arguments: Any) -> list[Any]:
    """What `body` returned in each, called with its place in the crowd and `arguments`. All must succeed."""
    context = multiprocessing.get_context("fork")
    begin, answers = context.Barrier(count), context.SimpleQueue()

    def one(number: int) -> None:
        os.getpid = lambda: 1
        try:
            begin.wait()
            answers.put((number, body(number, *arguments), ""))
        except BaseException:
            answers.put((number, None, traceback.format_exc()))

    processes = [context.Process(target=one, args=(number,)) for number in range(count)]
    for process in processes:
        process.start()
    found = sorted((answers.get() for _ in processes), key=lambda answer: answer[0])
    for process in processes:
        process.join()
    assert not any(error for _, _, error in found), "".join(error for _, _, error in found)
    return [answer for _, answer, _ in found]
