"""The processes of the job: who this one is, its device, its groups."""

from __future__ import annotations

import os
import random
import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TypeVar, cast

import torch
import torch.distributed as dist
from torch.distributed import TCPStore
from torch.distributed.rendezvous import rendezvous

from trainer.config import Limits
from trainer.votes import Control

T = TypeVar("T")


@dataclass(frozen=True)
class Ranks:
    """This process among the others, and the groups it shares with them."""

    rank: int
    world: int
    local_rank: int
    local_world: int
    device: torch.device
    store: TCPStore
    """The rendezvous' key-value store. It may outlive this start: put `name` before every key."""
    name: str
    """Of this start, the same on all processes."""
    control: Control
    counts: dist.ProcessGroup
    """gloo; small sums between CPUs, off the device's path."""
    saving: dist.ProcessGroup
    """gloo; checkpoints only. A background save that shared a group with training would mix up their messages."""

    @property
    def leader(self) -> bool:
        return self.rank == 0

    def from_leader(self, value: Callable[[], T]) -> T:
        """What the leader finds, on all processes. Only the leader looks."""
        box = [value() if self.leader else None]
        dist.broadcast_object_list(box, src=0, group=self.counts)
        return cast(T, box[0])

    def describe(self) -> str:
        return f"rank {self.rank} of {self.world} on host {socket.gethostname()}"


def join(limits: Limits, *, gpu: bool = True) -> Ranks:
    """Meet the other processes as torchrun's environment says; alone without it. Without `gpu`, none is touched."""
    for name, value in {
        "RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1",
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0",
    }.items():  # fmt: skip
        os.environ.setdefault(name, value)
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    local_rank, local_world = int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])
    if world == local_world and Path("/sys/class/net/lo").exists():
        os.environ.setdefault(
            "GLOO_SOCKET_IFNAME", "lo"
        )  # all on one machine: nothing needs to listen elsewhere
    torch.set_num_threads(limits.threads or max(1, available_cpus() // local_world))

    device = torch.device("cpu")
    if gpu and torch.cuda.is_available():
        device = torch.device("cuda", local_rank)
        torch.cuda.set_device(device)
    store = _store(world)
    dist.init_process_group(
        "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo",
        store=store,
        rank=rank,
        world_size=world,
        timeout=timedelta(seconds=limits.start_seconds),
        device_id=device if device.type == "cuda" else None,
    )
    counts, saving = _gloo(limits.start_seconds), _gloo(limits.save_seconds)
    # torchrun's store outlives a restart, so each start needs a name of its own for its votes.
    names = [f"trainer-{random.SystemRandom().getrandbits(64):016x}"]
    dist.broadcast_object_list(names, src=0, group=counts)
    return Ranks(
        rank, world, local_rank, local_world, device, store, names[0],
        Control(store.clone(), names[0], rank, world, limits.collective_seconds), counts, saving,
    )  # fmt: skip


def _store(world: int) -> TCPStore:
    """The key-value store that torchrun's agent serves; one of our own where there is no torchrun."""
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    if world == 1 and port == 0:
        return TCPStore(address, port, world, is_master=True, wait_for_workers=False)
    store: TCPStore = next(iter(rendezvous("env://")))[0]
    return store


def _gloo(seconds: float) -> dist.ProcessGroup:
    group = dist.new_group(backend="gloo", timeout=timedelta(seconds=seconds))
    assert isinstance(group, dist.ProcessGroup)
    return group


# Public since torch 2.15, under another name before.
set_timeout = getattr(dist, "set_timeout", None) or dist.distributed_c10d._set_pg_timeout


def limit(groups: Iterable[dist.ProcessGroup | None], seconds: float) -> None:
    """Set the time limit of these groups' collectives (None: the group of all). A group of some processes doesn't
    take over that of all: PyTorch gives it half an hour."""
    for group in groups:
        set_timeout(timedelta(seconds=seconds), group)


def shorten(here: Ranks, groups: Iterable[dist.ProcessGroup], seconds: float) -> None:
    """Lower the time limit of collectives, once the slow first step is behind; `groups` are the mesh's."""
    limit((None, here.counts, *groups), seconds)


def leave() -> None:
    dist.destroy_process_group()


def available_cpus() -> int:
    """CPUs that this process may use at the same time: its affinity, and its cgroup's quota where there is one."""
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _quota()
    return max(1, min(cpus, round(quota))) if quota else cpus


def _quota() -> float | None:
    """CPUs granted by the cgroup, v2 then v1 (None: no limit)."""
    try:
        allowed, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return None if allowed == "max" else int(allowed) / int(period)
    except (OSError, ValueError):
        pass
    try:
        folder = Path("/sys/fs/cgroup/cpu")
        microseconds = int((folder / "cpu.cfs_quota_us").read_text())
        return microseconds / int((folder / "cpu.cfs_period_us").read_text()) if microseconds > 0 else None
    except (OSError, ValueError):
        return None
