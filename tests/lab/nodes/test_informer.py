"""The informer, over lost connections too."""

from __future__ import annotations

import queue
from collections.abc import Iterator, Mapping

import pytest

from lab.nodes.client import informer
from lab.nodes.client.api import ApiError, Object
from lab.nodes.client.informer import Informer
from lab.nodes.client.parallel import each


class Server:
    """Answers lists in turn; each is followed by its events, and then by a lost connection."""

    def __init__(self, *turns: tuple[list[str], list[tuple[str, str]]]) -> None:
        self._turns = list(turns)
        self._events: list[tuple[str, str]] = []

    def get(self, path: str, query: Mapping[str, str]) -> Object:
        if not self._turns:
            raise ApiError(500, "no more")
        names, self._events = self._turns.pop(0)
        return {"items": [item(name) for name in names], "metadata": {"resourceVersion": "1"}}

    def watch(self, path: str, version: str, query: Mapping[str, str]) -> Iterator[Object]:
        for kind, name in self._events:
            yield {"type": kind, "object": item(name)}
        raise ApiError(410, "too old")


def item(name: str) -> Object:
    return {"metadata": {"name": name, "uid": name, "resourceVersion": "2"}}


def seen(server: Server, count: int, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    monkeypatch.setattr(informer, "_RETRY_SECONDS", 0.01)
    reports: queue.Queue[tuple[str, str]] = queue.Queue()
    running = Informer(server, "/x", lambda kind, one: reports.put((kind, one["metadata"]["name"])))  # type: ignore[arg-type]
    try:
        return [reports.get(timeout=60) for _ in range(count)]
    finally:
        running.stop()


def test_lists_then_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server((["a"], [("ADDED", "b"), ("DELETED", "a")]))
    assert seen(server, 3, monkeypatch) == [("ADDED", "a"), ("ADDED", "b"), ("DELETED", "a")]


def test_what_went_while_the_connection_was_lost_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server((["a", "b"], []), (["b"], []))
    assert seen(server, 4, monkeypatch) == [("ADDED", "a"), ("ADDED", "b"), ("DELETED", "a"), ("ADDED", "b")]


def test_a_handlers_mistake_does_not_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    reports: queue.Queue[str] = queue.Queue()

    def handle(kind: str, one: Object) -> None:
        reports.put(one["metadata"]["name"])
        raise ValueError("a mistake")

    running = Informer(Server((["a", "b"], [])), "/x", handle)  # type: ignore[arg-type]
    assert [reports.get(timeout=60) for _ in range(2)] == ["a", "b"]
    running.stop()


def test_each_does_all_and_says_all() -> None:
    done = []

    def work(number: int) -> None:
        done.append(number)
        if number % 10 == 0:
            raise RuntimeError(f"{number} failed")

    with pytest.raises(RuntimeError, match=r"^0 failed; 10 failed.* and 2 more$"):
        each(range(120), work)
    assert sorted(done) == list(range(120))
