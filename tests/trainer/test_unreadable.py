"""Checkpoints that can't be read, and runs of which nothing is whole: no program throws such a run away."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.trainer.campaign import Campaign, Forge
from trainer import exits

pytestmark = pytest.mark.processes

JOB: dict[str, Any] = {
    "steps": 9,
    "schedule": {"warmup": 0},
    "checkpoint": {"every": 3, "keep": 2},
    "evaluate": {"sequences": 0},
}


@pytest.fixture(scope="module")
def broken_off(forge: Forge) -> Campaign:
    """Killed in step 8; checkpoints of steps 3 and 6."""
    campaign = Campaign(forge, forge.folder / "unreadable", JOB)
    campaign.start(2, rank=1, at_step=8)
    assert campaign.store.steps() == [6, 3], campaign.log()
    return campaign


def names(campaign: Campaign) -> list[str]:
    return sorted(path.name for path in (campaign.output / "checkpoints").iterdir())


def test_its_whole_story(broken_off: Campaign) -> None:
    campaign, store = broken_off, broken_off.store

    def file(step: int) -> Path:
        return store.path(step) / "__1_0.distcp"

    # One process cannot read its part: a stale mount, say. Here: a link that leads nowhere but to itself.
    file(6).rename(campaign.output / "away")
    file(6).symlink_to(file(6))
    assert campaign.start(2)["statuses"] == [exits.RETRY] * 2
    assert "a checkpoint cannot be read: rank " in campaign.log()
    assert names(campaign) == ["step-00000003", "step-00000006"], "nothing is given up for what may pass"
    file(6).unlink()
    (campaign.output / "away").rename(file(6))

    # All are damaged: it doesn't begin anew, now or at another start.
    for step in (6, 3):
        file(step).write_bytes(file(step).read_bytes()[:-1])
    for _ in range(2):
        assert campaign.start(2)["statuses"] == [exits.DAMAGED] * 2
        assert "no checkpoint is whole, those of step 6, 3 are damaged" in campaign.log()
        assert names(campaign) == ["step-00000003.damaged", "step-00000006.damaged"]

    # Until a person says so.
    for path in (campaign.output / "checkpoints").iterdir():
        path.rename(campaign.output / path.name)
    assert campaign.start(2)["statuses"] == [exits.FINISHED] * 2
    assert "from the initial weights" in campaign.log()
