"""Everything that exists and isn't AWS's own default: `GET /_lab/resources`.

What a stack keeps on purpose when it is destroyed says so by its tags (cluster/retention.py), and is marked here.

One entry of the table for each type. What AWS shows for a while after its deletion, or makes and removes
together with something else (a VPC's main route table), isn't counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from moto.cloudwatch.models import cloudwatch_backends
from moto.core.base_backend import BackendDict
from moto.ec2.models import EC2Backend, ec2_backends
from moto.ecr.models import ecr_backends
from moto.iam.models import IAMBackend, iam_backends
from moto.kms.models import kms_backends
from moto.logs.models import logs_backends
from moto.resourcegroups.models import resourcegroups_backends
from moto.s3.models import s3_backends
from moto.secretsmanager.models import secretsmanager_backends
from moto.sns.models import sns_backends
from moto.sqs.models import sqs_backends

from lab.aws.budgets import Budgets
from lab.aws.ec2.dependencies import GONE
from lab.aws.ec2.models import CapacityReservations
from lab.aws.ec2.placement_groups import PlacementGroups
from lab.aws.eks.state import Clusters
from lab.aws.fsx.state import Fsx
from lab.aws.seed import USER
from lab.aws.world import World
from lab.settings import ACCOUNT

KEPT = ("shardyard:on-destroy", "keep")
Found = tuple[str, str, str, str]
"""Type, id, ARN (if it has one) and name."""


def resources(world: World) -> list[dict[str, Any]]:
    """Type, id, ARN, name and region of each, and whether it is `kept` on purpose; sorted."""
    kept = set(_kept())
    found = sorted([*_of_moto(), *_of_the_lab(world)])
    names = ("type", "id", "arn", "name", "region")
    return [{**dict(zip(names, one, strict=True)), "kept": one[2] in kept} for one in found]


def _kept() -> Iterator[str]:
    """ARNs of the buckets and repositories whose tags say that destroying their stack leaves them."""
    for _, _, s3 in list(s3_backends.iter_backends()):
        for bucket in s3.buckets.values():
            if KEPT in s3.tagger.get_tag_dict_for_resource(bucket.arn).items():
                yield bucket.arn
    for _, _, ecr in list(ecr_backends.iter_backends()):
        for repository in ecr.repositories.values():
            if KEPT in ecr.tagger.get_tag_dict_for_resource(repository.arn).items():
                yield repository.arn


def _of_moto() -> Iterator[tuple[str, ...]]:
    tables: list[tuple[BackendDict[Any], Callable[[Any], Iterable[Found]]]] = [
        (ec2_backends, _ec2),
        (iam_backends, _iam),
        (kms_backends, _kms),
        (
            s3_backends,
            lambda one: (("s3:bucket", name, f"arn:aws:s3:::{name}", name) for name in one.buckets),
        ),
        (
            ecr_backends,
            lambda one: (("ecr:repository", name, it.arn, name) for name, it in one.repositories.items()),
        ),
        (logs_backends, lambda one: (("logs:group", name, it.arn, name) for name, it in one.groups.items())),
        (
            cloudwatch_backends,
            lambda one: (("cloudwatch:alarm", name, it.alarm_arn, name) for name, it in one.alarms.items()),
        ),
        (sns_backends, lambda one: (("sns:topic", arn, arn, it.name) for arn, it in one.topics.items())),
        (
            sqs_backends,
            lambda one: (("sqs:queue", name, it.queue_arn, name) for name, it in one.queues.items()),
        ),
        (
            secretsmanager_backends,
            lambda one: (
                ("secretsmanager:secret", it.arn, it.arn, it.name)
                for it in one.secrets.values()
                if not it.is_deleted()
            ),
        ),
        (
            resourcegroups_backends,
            lambda one: (
                ("resource-groups:group", it.name, it.arn, it.name) for it in one.groups.by_name.values()
            ),
        ),
    ]
    for backends, listed in tables:
        for account, region, backend in list(backends.iter_backends()):
            if account == ACCOUNT:
                yield from ((*one, region) for one in listed(backend))


def _ec2(ec2: EC2Backend) -> Iterator[Found]:
    subnets = [subnet for zone in ec2.subnets.values() for subnet in zone.values()]
    groups = [group for vpc in ec2.groups.values() for group in vpc.values() if group.name != "default"]
    instances = [one for reservation in ec2.reservations.values() for one in reservation.instances]
    kinds: dict[str, Iterable[Any]] = {
        "vpc": ec2.vpcs.values(),
        "subnet": subnets,
        "internet-gateway": ec2.internet_gateways.values(),
        "nat-gateway": (one for one in ec2.nat_gateways.values() if one.state not in GONE),
        "elastic-ip": ec2.addresses,
        "route-table": (one for one in ec2.route_tables.values() if one.main_association_id is None),
        "security-group": groups,
        "network-acl": (one for one in ec2.network_acls.values() if not one.default),
        "network-interface": ec2.enis.values(),
        "vpc-endpoint": ec2.vpc_end_points.values(),
        "flow-log": ec2.flow_logs.values(),
        "launch-template": ec2.launch_templates.values(),
        "instance": (one for one in instances if one.state not in GONE),
        "volume": ec2.volumes.values(),
        "key-pair": ec2.key_pairs.values(),
    }
    for kind, found in kinds.items():
        for one in found:
            name = ec2.tags.get(one.id, {}).get("Name", "")
            yield f"ec2:{kind}", one.id, f"arn:aws:ec2:{ec2.region_name}:{ACCOUNT}:{kind}/{one.id}", name


def _iam(iam: IAMBackend) -> Iterator[Found]:
    for role in iam.roles.values():
        yield "iam:role", role.name, role.arn, role.name
    for policy in iam.managed_policies.values():
        if f"::{ACCOUNT}:" in policy.arn:
            yield "iam:policy", policy.arn, policy.arn, policy.name
    for profile in iam.instance_profiles.values():
        yield "iam:instance-profile", profile.name, profile.arn, profile.name
    for user in iam.users.values():
        if user.name != USER:
            yield "iam:user", user.name, user.arn, user.name
    for provider in iam.open_id_providers.values():
        yield "iam:oidc-provider", provider.arn, provider.arn, provider.url


def _kms(kms: Any) -> Iterator[Found]:
    """Keys of the account's own; one whose deletion is scheduled counts as gone."""
    for key in kms.keys.values():
        aliases = [name for name in key.aliases if not name.startswith("alias/aws/")]
        if (key.aliases and not aliases) or key.key_state == "PendingDeletion":
            continue
        yield "kms:key", key.id, key.arn, key.description
        for name in aliases:
            yield "kms:alias", name, f"arn:aws:kms:{kms.region_name}:{ACCOUNT}:{name}", name


def _of_the_lab(world: World) -> Iterator[tuple[str, ...]]:
    for region, placement in world.states(PlacementGroups).items():
        for group in placement.groups.values():
            yield "ec2:placement-group", group.id, group.arn, group.name, region
    for region, reserved in world.states(CapacityReservations).items():
        for one in reserved.reservations.values():
            if one.state in ("active", "scheduled"):
                yield "ec2:capacity-reservation", one.id, one.arn, "", region
    for region, eks in world.states(Clusters).items():
        for cluster in eks.clusters.values():
            yield "eks:cluster", cluster.name, cluster.arn, cluster.name, region
            for kind, owned in (
                ("nodegroup", cluster.nodegroups),
                ("addon", cluster.addons),
                ("access-entry", cluster.entries),
                ("pod-identity-association", cluster.pod_identities),
            ):
                for name, item in owned.items():
                    yield f"eks:{kind}", f"{cluster.name}/{name}", item.arn, name, region
    for region, fsx in world.states(Fsx).items():
        for file_system in fsx.file_systems.values():
            yield "fsx:file-system", file_system.id, file_system.arn, file_system.tags.get("Name", ""), region
        for association in fsx.associations.values():
            yield "fsx:association", association.id, association.arn, "", region
    for budgets in world.states(Budgets).values():
        for name in budgets.budgets:
            yield "budgets:budget", name, f"arn:aws:budgets::{ACCOUNT}:budget/{name}", name, "global"
