"""The modules that add calls and rules to moto; importing one registers what it holds."""

from __future__ import annotations

import importlib

MODULES = (
    "budgets",
    "ec2.addresses",
    "ec2.capacity_blocks",
    "ec2.capacity_reservations",
    "ec2.dependencies",
    "ec2.endpoints",
    "ec2.interfaces",
    "ec2.launch",
    "ec2.launch_templates",
    "ec2.nat_gateways",
    "ec2.placement_groups",
    "ec2.quotas",
    "ec2.resource_groups",
    "ec2.security_group_rules",
    "ec2.subnets",
    "ecr.images",
    "eks.access",
    "eks.access_policies",
    "eks.addon_catalog",
    "eks.addons",
    "eks.clusters",
    "eks.fargate",
    "eks.images",
    "eks.nodegroups",
    "eks.pod_identity",
    "eks.scaling",
    "eks.tags",
    "eks.updates",
    "eks.versions",
    "fsx.associations",
    "fsx.file_systems",
    "kms",
    "logs",
    "s3",
    "sts",
)


def load() -> None:
    for module in MODULES:
        importlib.import_module(f"lab.aws.{module}")
