"""One emulator for the session's plugin tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.lab.providers.support import Cloud, Stack, emulator


class Clouds:
    """The emulator that runs; one that a failed test left something in gives way to a new one."""

    def __init__(self, folders: pytest.TempPathFactory) -> None:
        self._folders = folders
        self._running = ExitStack()
        self._cloud: Cloud | None = None

    def clean(self) -> Cloud:
        if self._cloud is not None and (self._cloud.resources() or self._cloud.ask("faults")):
            self.stop()
        if self._cloud is None:
            self._cloud = self._running.enter_context(emulator(self._folders.mktemp("aws")))
        return self._cloud

    def stop(self) -> None:
        self._cloud = None
        self._running.close()


@pytest.fixture(scope="session")
def clouds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clouds]:
    running = Clouds(tmp_path_factory)
    yield running
    running.stop()


@pytest.fixture
def cloud(clouds: Clouds) -> Cloud:
    """An emulator with nothing in it."""
    return clouds.clean()


@pytest.fixture
def stack(cloud: Cloud, tmp_path: Path) -> Callable[[str], Stack]:
    """Makes a stack of one of the programs."""
    return lambda program: Stack(program, cloud, tmp_path)
