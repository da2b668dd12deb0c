"""One emulator for the session's plugin tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.lab.providers.support import Cloud, Stack, emulator


@pytest.fixture(scope="session")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    with emulator(tmp_path_factory.mktemp("aws")) as running:
        yield running


@pytest.fixture
def stack(cloud: Cloud, tmp_path: Path) -> Callable[[str], Stack]:
    """Makes a stack of one of the programs."""
    return lambda program: Stack(program, cloud, tmp_path)
