"""The vendor's provider with its own waits, as on AWS: what makes it work must not be that they are scaled."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.lab.providers.support import Cloud, Stack

pytestmark = [pytest.mark.lab, pytest.mark.soak]


@pytest.mark.parametrize("program", ["network", "cluster"])
def test_life_at_the_vendors_own_pace(stack: Callable[[str], Stack], cloud: Cloud, program: str) -> None:
    """Minutes each: an endpoint is looked at 10 s after its deletion, a NAT gateway 20 s, a cluster after 30."""
    made = stack(program)
    made.settings["SHARDYARD_AWS_WAIT_FACTOR"] = "1"
    assert set(made.up()) == {"created"}
    assert set(made.up("--expect-no-changes")) == {"unchanged"}
    made.destroy()
    assert cloud.resources() == []
