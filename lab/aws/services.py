"""The modules that add calls and rules to moto; importing one registers what it holds."""

from __future__ import annotations

import importlib

MODULES = (
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
)


def load() -> None:
    for module in MODULES:
        importlib.import_module(f"lab.aws.{module}")
