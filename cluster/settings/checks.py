"""All rules that compare parts of a stack file, each with the parts that it compares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cluster.settings import checks_capacity as capacity
from cluster.settings import checks_network as network
from cluster.settings import checks_training as training
from cluster.settings import checks_versions as versions
from cluster.settings.check import Check
from cluster.settings.problems import Problem

CHECKS = (
    Check(network.zones_are_of_the_region, ("region", "network")),
    Check(network.zones_are_distinct, ("network",)),
    Check(network.control_plane_has_two_zones, ("network",)),
    Check(network.networks_do_not_overlap, ("network", "kubernetes")),
    Check(network.pods_have_addresses, ("kubernetes", "system_node_group", "node_groups")),
    Check(
        network.addresses_suffice, ("network", "kubernetes", "system_node_group", "node_groups", "storage")
    ),
    Check(versions.kube_proxy_matches, ("kubernetes",)),
    Check(versions.ami_releases_match, ("kubernetes", "system_node_group", "node_groups")),
    Check(versions.cni_supports_efa_only, ("kubernetes", "node_groups")),
    Check(capacity.system_is_not_a_node_group, ("node_group_names",)),
    Check(capacity.node_groups_are_in_the_network, ("network", "node_groups")),
    Check(capacity.efa_interfaces_fit_the_type, ("node_groups",)),
    Check(capacity.reservations_suffice, ("node_groups",)),
    Check(capacity.shared_reservations_suffice, ("node_groups",)),
    Check(capacity.placement_groups_fit, ("node_groups",)),
    Check(capacity.blocks_are_open, ("node_groups", "now")),
    Check(capacity.arns_are_of_the_region, ("region", "node_groups")),
    Check(capacity.tags_fit_together, ("tags", "node_groups", "system_node_group")),
    Check(training.file_system_is_in_the_network, ("network", "storage")),
    Check(training.node_groups_of_jobs_exist, ("node_group_names", "training")),
    Check(training.jobs_are_in_the_file_system_s_zone, ("node_groups", "storage", "training")),
    Check(training.jobs_fit_their_node_group, ("node_groups", "training")),
    Check(training.job_files_are_valid, ("directory", "training")),
)


def run(valid: Mapping[str, Any]) -> Iterator[Problem]:
    """Every problem, with its path below `shardyard:`. `valid` are the parts that are valid by themselves."""
    for check in CHECKS:
        yield from check.run(valid)
