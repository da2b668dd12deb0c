"""Making a node group's nodes come, change and go, in worker threads.

EC2's part happens with the world's lock, the Runtime's without. One worker at a time has a group.
"""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence

from moto.core.exceptions import ServiceException
from moto.ec2.models import ec2_backends
from moto.ec2.models.instances import Instance

from lab.aws.eks.access import apply_access
from lab.aws.eks.node_config import NodeConfigError
from lab.aws.eks.nodes import Template, launch_one, node_spec, read_template
from lab.aws.eks.state import Cluster, Issue, Nodegroup, Update, now
from lab.aws.world import World

log = logging.getLogger(__name__)
FAILURES = {"CREATING": "CREATE_FAILED", "UPDATING": "DEGRADED", "DELETING": "DELETE_FAILED"}
_turns: dict[str, threading.Lock] = defaultdict(threading.Lock)


def create(world: World, cluster: Cluster, group: Nodegroup) -> None:
    """CREATING until its nodes are ready; CREATE_FAILED as a whole if one can't be had."""

    def worker() -> None:
        issues = _grow(world, cluster, group, group.scaling["desiredSize"])
        _settle(world, group, "CREATING", "CREATE_FAILED" if issues else "ACTIVE", issues)

    _in_turn(world, group, worker)


def reconfigure(world: World, cluster: Cluster, group: Nodegroup, update: Update) -> None:
    """Reach the desired size, and give the nodes that stay their labels and taints."""

    def worker() -> None:
        surplus = len(group.instances) - group.scaling["desiredSize"]
        issues = _shrink(world, cluster, group, group.instances[-surplus:]) if surplus > 0 else []
        if not issues:
            staying = _instances(world, cluster, group.instances)
            issues = _join(world, cluster, group, staying, _template(world, cluster, group))
        if surplus < 0 and not issues:
            issues = _grow(world, cluster, group, -surplus)
        _settle(world, group, "UPDATING", "DEGRADED" if issues else "ACTIVE", issues, update)

    _in_turn(world, group, worker)


def replace(world: World, cluster: Cluster, group: Nodegroup, update: Update) -> None:
    """One node after the other. DEFAULT needs room for one more, MINIMAL goes without it."""
    surge = group.update_config.get("updateStrategy", "DEFAULT") == "DEFAULT"

    def worker() -> None:
        issues: list[Issue] = []
        for old in list(group.instances):
            steps: list[Callable[[], list[Issue]]] = [
                lambda old=old: _shrink(world, cluster, group, [old]),  # type: ignore[misc]
                lambda: _grow(world, cluster, group, 1),
            ]
            for step in reversed(steps) if surge else steps:
                issues = issues or step()
        # A failed update leaves the group as it is, usable: only the update shows the errors.
        _settle(world, group, "UPDATING", "ACTIVE", [], update, issues)

    _in_turn(world, group, worker)


def delete(world: World, cluster: Cluster, group: Nodegroup) -> None:
    """DELETING: drain and terminate, then forget the group and, with the last of its role, the entry."""

    def worker() -> None:
        issues = _shrink(world, cluster, group, list(group.instances))
        if issues:
            _settle(world, group, "DELETING", "DELETE_FAILED", issues)
            return
        with world.lock:
            cluster.nodegroups.pop(group.name, None)
            entry = cluster.entries.get(group.role_arn)
            others = any(one.role_arn == group.role_arn for one in cluster.nodegroups.values())
            unused = entry is not None and entry.type == "EC2_LINUX" and not others
            if unused:
                del cluster.entries[group.role_arn]
        if unused:
            apply_access(world, cluster)

    _in_turn(world, group, worker)


def lose(world: World, cluster: Cluster, group: Nodegroup, lost: Sequence[str], names: Sequence[str]) -> None:
    """Instances were terminated behind the group's back: it replaces them, as its scaling group does."""

    def worker() -> None:
        with world.lock:
            group.instances = [one for one in group.instances if one not in lost]
        if world.runtime is not None:
            world.runtime.remove_nodes(cluster.name, names)
        if group.status not in ("ACTIVE", "DEGRADED"):
            return
        issues = _grow(world, cluster, group, group.scaling["desiredSize"] - len(group.instances))
        with world.lock:
            group.status, group.issues = ("DEGRADED" if issues else "ACTIVE"), issues

    _in_turn(world, group, worker)


def _in_turn(world: World, group: Nodegroup, worker: Callable[[], None]) -> None:
    def run() -> None:
        with _turns[group.arn]:
            try:
                worker()
            except Exception as error:  # such as a launch template that was deleted
                log.exception("node group %s", group.name)
                with world.lock:
                    group.status = FAILURES.get(group.status, group.status)
                    group.issues = [Issue("InternalFailure", str(error), [group.name])]
                    for update in group.updates.values():
                        if update.status == "InProgress":
                            update.end(*group.issues)

    world.work(f"nodegroup-{group.name}", run)


def _settle(
    world: World,
    group: Nodegroup,
    expected: str,
    status: str,
    issues: list[Issue],
    update: Update | None = None,
    errors: list[Issue] | None = None,
) -> None:
    """End in `status`, unless somebody moved the group on (to DELETING) in the meantime."""
    with world.lock:
        if group.status == expected:
            group.status = status
        group.issues, group.modified = issues, now()
        if update:
            update.end(*(issues if errors is None else errors))


def _instances(world: World, cluster: Cluster, ids: Sequence[str]) -> list[Instance]:
    with world.lock:
        ec2 = ec2_backends[cluster.account][cluster.region]
        return list(ec2.get_multi_instances_by_id(list(ids))) if ids else []


def _grow(world: World, cluster: Cluster, group: Nodegroup, count: int) -> list[Issue]:
    """Launch `count` instances and have them join; stops at the first that EC2 refuses."""
    template = _template(world, cluster, group)
    if isinstance(template, Issue):
        return [template]
    launched: list[Instance] = []
    issues: list[Issue] = []
    for _ in range(count):
        if group.status == "DELETING":
            break
        with world.lock:
            try:
                instance = launch_one(world, cluster, group, template)
            except ServiceException as error:
                issues = [_launch_failure(group, error)]
                break
            group.instances.append(instance.id)
            launched.append(instance)
    return issues or _join(world, cluster, group, launched, template)


def _launch_failure(group: Nodegroup, error: ServiceException) -> Issue:
    code = "InsufficientFreeAddresses" if "FreeAddresses" in error.code else "AsgInstanceLaunchFailures"
    kind = {"SPOT": "Spot", "CAPACITY_BLOCK": "Capacity Block"}.get(group.capacity_type, "On-Demand")
    message = (
        f"Could not launch {kind} Instances. {error.code} - {error.message} Launching EC2 instance failed."
    )
    log.warning("node group %s: %s", group.name, message)
    return Issue(code, message, [group.autoscaling_group])


def _template(world: World, cluster: Cluster, group: Nodegroup) -> Template | Issue:
    """The group's template, or why it can't be used."""
    try:
        with world.lock:
            return read_template(ec2_backends[cluster.account][cluster.region], group)
    except NodeConfigError as error:
        log.warning("node group %s: %s", group.name, error)
        return Issue("Ec2LaunchTemplateInvalidConfiguration", str(error), [group.name])


def _join(
    world: World,
    cluster: Cluster,
    group: Nodegroup,
    instances: Sequence[Instance],
    template: Template | Issue,
) -> list[Issue]:
    if isinstance(template, Issue):
        return [template]
    with world.lock:
        specs = [node_spec(cluster, group, one, template) for one in instances]
    if world.runtime is None or not specs:
        return []
    try:
        world.runtime.add_nodes(cluster.name, specs)
    except Exception as error:
        log.exception("node group %s", group.name)
        message = f"Instances failed to join the kubernetes cluster: {error}"
        return [Issue("NodeCreationFailure", message, [one.id for one in instances])]
    return []


def _shrink(world: World, cluster: Cluster, group: Nodegroup, ids: Sequence[str]) -> list[Issue]:
    """Drain the nodes, then terminate their instances."""
    instances = _instances(world, cluster, ids)
    if world.runtime is not None and instances:
        try:
            world.runtime.remove_nodes(cluster.name, [one.private_dns_name for one in instances])
        except Exception as error:
            log.exception("node group %s", group.name)
            return [Issue("Unknown", str(error), list(ids))]
    with world.lock:
        running = [one.id for one in instances if one.state != "terminated"]
        if running:
            ec2_backends[cluster.account][cluster.region].terminate_instances(running)
        group.instances = [one for one in group.instances if one not in ids]
    return []
