"""The table of instance types against EC2's own answer, as moto ships it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import moto
import pytest

from cluster.instances import ACCELERATED, INSTANCE_TYPES, SYSTEM, InstanceType

DUMP = Path(moto.__file__).parent / "ec2/resources/instance_types.json.gz"


@pytest.fixture(scope="module")
def facts() -> dict[str, Any]:
    with gzip.open(DUMP) as file:
        known: dict[str, Any] = json.load(file)
        return known


@pytest.mark.parametrize("row", INSTANCE_TYPES.values(), ids=lambda row: row.name)
def test_row_says_what_ec2_says(row: InstanceType, facts: dict[str, Any]) -> None:
    fact = facts[row.name]
    network = fact["NetworkInfo"]
    card_0 = network["NetworkCards"][0]
    assert row.vcpus == fact["VCpuInfo"]["DefaultVCpus"]
    assert row.memory_gib * 1024 == fact["MemoryInfo"]["SizeInMiB"]
    assert row.network_cards == network["MaximumNetworkCards"]
    assert row.max_efa_interfaces == network.get("EfaInfo", {}).get("MaximumEfaInterfaces", 0)
    assert row.interfaces_on_card_0 == card_0["MaximumNetworkInterfaces"]
    assert row.addresses_per_interface == network["Ipv4AddressesPerInterface"]
    gpus = fact.get("GpuInfo", {}).get("Gpus", [])
    assert row.gpus == sum(gpu["Count"] for gpu in gpus)
    assert [row.gpu] == ([gpu["Name"] for gpu in gpus] or [""])
    assert row.gpu_memory_gib == (gpus[0]["MemoryInfo"]["SizeInMiB"] // 1024 if gpus else 0)
    disks = fact.get("InstanceStorageInfo", {}).get("Disks", [])
    assert (row.instance_store_volumes, row.instance_store_volume_gb) == (
        (disks[0]["Count"], disks[0]["SizeInGB"]) if disks else (0, 0)
    )


def test_efa_fits_the_cards() -> None:
    """With card 0 or without it, there is a card for every EFA interface."""
    for row in INSTANCE_TYPES.values():
        assert row.max_efa_interfaces <= row.network_cards - (not row.efa_on_card_0)


def test_allocatable_cpu_is_what_nodes_report() -> None:
    assert INSTANCE_TYPES["p4de.24xlarge"].allocatable_cpu_millicores == 95690
    assert INSTANCE_TYPES["p5.48xlarge"].allocatable_cpu_millicores == 191450
    assert INSTANCE_TYPES["m7i.large"].allocatable_cpu_millicores == 1930


def test_memory_for_pods_is_below_what_nodes_report() -> None:
    assert INSTANCE_TYPES["p4de.24xlarge"].allocatable_memory_gib <= 1146004920 / 2**20
    assert INSTANCE_TYPES["p5.48xlarge"].allocatable_memory_gib <= 2052371068 / 2**20
    for name in ACCELERATED:
        row = INSTANCE_TYPES[name]
        assert 0.9 < row.allocatable_memory_gib / row.memory_gib < 0.96


def test_every_type_is_for_one_kind_of_node_group() -> None:
    assert {*ACCELERATED, *SYSTEM} == set(INSTANCE_TYPES)
    assert not set(ACCELERATED) & set(SYSTEM)
    assert {"p4d.24xlarge", "p4de.24xlarge", "p5.48xlarge", "p5e.48xlarge", "p5en.48xlarge"} <= set(
        ACCELERATED
    )
