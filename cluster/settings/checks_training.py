"""The file system and the jobs, compared with the node groups that they use."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from cluster.settings import words
from cluster.settings.node_groups import NodeGroupSettings
from cluster.settings.problems import Problem
from cluster.settings.sections import MOUNT_PATH, NetworkSettings, Storage, Training
from trainer import config as job_file
from trainer.exits import Failure

NodeGroups = Mapping[str, NodeGroupSettings]


def file_system_is_in_the_network(network: NetworkSettings, storage: Storage) -> Iterator[Problem]:
    if storage.file_system.zone not in network.zones:
        what = f"{storage.file_system.zone} is none of the network's zones ({', '.join(network.zones)})"
        yield Problem("storage.fileSystem.zone", what, "Choose the zone of the node groups that use it.")


def node_groups_of_jobs_exist(node_group_names: Collection[str], training: Training) -> Iterator[Problem]:
    for name, job in training.jobs.items():
        if job.node_group not in node_group_names:
            close = words.nearest(job.node_group, sorted(node_group_names))
            known = ", ".join(sorted(node_group_names)) or "none"
            yield Problem(
                f"training.jobs.{name}.nodeGroup",
                f"there is no node group {job.node_group}",
                f"Did you mean {close}?" if close else f"Node groups: {known}.",
            )


def jobs_are_in_the_file_system_s_zone(
    node_groups: NodeGroups, storage: Storage, training: Training
) -> Iterator[Problem]:
    for name, job in training.jobs.items():
        group = node_groups.get(job.node_group)
        if group and group.zone != storage.file_system.zone:
            yield Problem(
                f"training.jobs.{name}.nodeGroup",
                f"node group {job.node_group} is in {group.zone}, and the file system in "
                f"{storage.file_system.zone}",
                "Move both to one zone: Lustre across zones is slow, and its traffic is billed.",
            )


def jobs_fit_their_node_group(node_groups: NodeGroups, training: Training) -> Iterator[Problem]:
    for name, job in training.jobs.items():
        group = node_groups.get(job.node_group)
        if group is None:
            continue
        requests = {
            "gpu": (job.resources.gpus_on(group), group.instance.gpus),
            "efa": (job.resources.efa_on(group), group.efa_interfaces),
        }
        per_node = []
        for resource, (wanted, available) in requests.items():
            if wanted > available:
                yield Problem(
                    f"training.jobs.{name}.resources.{resource}",
                    f"a worker requests {wanted}, and a node of {job.node_group} has {available}",
                    f"Use {available} or less.",
                )
            elif wanted:
                per_node.append(available // wanted)
        room = group.nodes.max * min(per_node, default=group.max_pods)
        if job.workers.max > room > 0:
            yield Problem(
                f"training.jobs.{name}.workers.max",
                f"{job.workers.max} workers, and node group {job.node_group} has room for {room}",
                "Lower it, request less in resources, or raise the node group's nodes.max.",
            )


def job_files_are_valid(directory: Path, training: Training) -> Iterator[Problem]:
    """The trainer's own check (it needs no torch), then what the cluster needs of a job file."""
    for name, job in training.jobs.items():
        path, file = f"training.jobs.{name}.config", directory / job.config
        try:
            content = job_file.load(file)
        except Failure as failure:
            # The first line counts the problems, each further line is one.
            for line in str(failure).splitlines()[1:]:
                yield Problem(path, f"{file}: {line.strip()}", "trainer/README.md describes job files.")
        except (OverflowError, RecursionError, TypeError):
            what = f"{file} is not a job file: it has values or nesting that YAML readers refuse"
            yield Problem(path, what, "trainer/README.md describes job files.")
        else:
            if content.name != name:
                yield Problem(
                    path,
                    f"{file} has the name {content.name!r}, not {name!r}",
                    "Give the job and its file one name: it is the folder of its checkpoints.",
                )
            if not content.output.is_relative_to(MOUNT_PATH):
                yield Problem(
                    path,
                    f"{file} has its output at {str(content.output)!r}, outside the file system",
                    f"Choose a folder below {MOUNT_PATH}/jobs: it outlives the pod.",
                )
