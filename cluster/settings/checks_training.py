"""The file system and the jobs, against the pools that they live on."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml

from cluster.instances import INSTANCE_TYPES
from cluster.settings.pools import AcceleratedPool
from cluster.settings.problems import Problem
from cluster.settings.sections import MOUNT_PATH, Network, Storage, Training

Pools = Mapping[str, AcceleratedPool]


def file_system_is_in_the_network(network: Network, storage: Storage) -> Iterator[Problem]:
    if storage.file_system.zone not in network.zones:
        what = f"{storage.file_system.zone} is none of the network's zones ({', '.join(network.zones)})"
        yield Problem("storage.fileSystem.zone", what)


def jobs_have_a_pool(pools: Pools, storage: Storage, training: Training) -> Iterator[Problem]:
    for name, job in training.jobs.items():
        path = f"training.jobs.{name}.pool"
        if job.pool not in pools:
            close = difflib.get_close_matches(job.pool, pools, n=1)
            known = f"Did you mean {close[0]}?" if close else f"Pools here: {', '.join(pools) or 'none'}."
            yield Problem(path, f"there is no pool {job.pool}", known)
        elif pools[job.pool].zone != storage.file_system.zone:
            yield Problem(
                path,
                f"pool {job.pool} is in {pools[job.pool].zone}, and the file system in {storage.file_system.zone}",
                "Put both into one zone: Lustre across zones is slow, and its traffic is billed.",
            )


def jobs_fit_their_pool(pools: Pools, training: Training) -> Iterator[Problem]:
    for name, job in training.jobs.items():
        pool = pools.get(job.pool)
        instance = INSTANCE_TYPES.get(pool.instance_type) if pool else None
        if pool is None or instance is None:
            continue
        interfaces = instance.efa if pool.efa.interfaces is None else pool.efa.interfaces
        asked = {"gpu": job.resources.gpu, "efa": job.resources.efa}
        fit = []
        for kind, there in (("gpu", instance.gpus), ("efa", interfaces)):
            given = asked[kind]
            wanted = there if given is None else given
            if wanted > there:
                yield Problem(
                    f"training.jobs.{name}.resources.{kind}",
                    f"a worker asks for {wanted}, and a node of pool {job.pool} has {there}",
                )
            elif wanted:
                fit.append(there // wanted)
        room = pool.nodes.max * min(fit, default=pool.max_pods)
        if job.workers.max > room > 0:
            yield Problem(
                f"training.jobs.{name}.workers.max",
                f"{job.workers.max} workers, and pool {job.pool} has room for {room}",
                "Lower it, ask for less in resources, or raise the pool's nodes.max.",
            )


def job_files_exist(directory: Path, training: Training) -> Iterator[Problem]:
    for name, job in training.jobs.items():
        path, file = f"training.jobs.{name}.config", directory / job.config
        try:
            content = yaml.safe_load(file.read_text())
        except (OSError, yaml.YAMLError) as error:
            yield Problem(path, f"{file} can't be read: {error}")
            continue
        if not isinstance(content, dict):
            yield Problem(path, f"{file} holds no settings (a YAML mapping)")
        elif content.get("name") != name:
            what = f"{file} calls itself {content.get('name')!r}, not {name!r}"
            yield Problem(
                path, what, "Give the job and its file one name: it is the folder of its checkpoints."
            )
        elif not str(content.get("output", "")).startswith(f"{MOUNT_PATH}/"):
            what = f"{file} has its output at {content.get('output')!r}, outside the file system"
            yield Problem(path, what, f"Put it below {MOUNT_PATH}/jobs, so that it outlives the pod.")


CHECKS = (file_system_is_in_the_network, jobs_have_a_pool, jobs_fit_their_pool, job_files_exist)
