"""Bringing a cluster's control plane up and down, in a worker thread."""

from __future__ import annotations

import logging
from collections.abc import Callable

from lab.aws.eks import network
from lab.aws.eks.access import apply_access
from lab.aws.eks.state import Cluster, Issue
from lab.aws.world import World
from lab.nodes.api import ClusterEndpoint, ClusterSpec

log = logging.getLogger(__name__)
FAKE_CERTIFICATE = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg=="


def start(world: World, cluster: Cluster) -> None:
    """CREATING until the Runtime's API server is ready; at once ACTIVE without a Runtime."""
    network.attach(cluster)
    if world.runtime is None:
        _become_active(cluster, _nothing_behind(world, cluster))
    else:
        world.work(f"create-cluster-{cluster.name}", lambda: _create(world, cluster))


def _nothing_behind(world: World, cluster: Cluster) -> ClusterEndpoint:
    url = f"https://{cluster.oidc_id}.gr7.{cluster.region}.eks.amazonaws.com"
    return ClusterEndpoint(url, FAKE_CERTIFICATE, cluster.network["serviceIpv4Cidr"])


def _create(world: World, cluster: Cluster) -> None:
    assert world.runtime is not None
    try:
        endpoint = world.runtime.create_cluster(ClusterSpec(cluster.name, cluster.version, cluster.arn))
    except Exception as error:
        log.exception("cluster %s did not come up", cluster.name)
        with world.lock:
            cluster.status = "FAILED"
            cluster.issues = [Issue("InternalFailure", str(error), [cluster.arn])]
        return
    try:
        apply_access(world, cluster)
    except Exception:
        log.exception("access entries of %s were not applied", cluster.name)
    with world.lock:
        _become_active(cluster, endpoint)


def _become_active(cluster: Cluster, endpoint: ClusterEndpoint) -> None:
    cluster.endpoint = endpoint.url
    cluster.certificate_authority = endpoint.certificate_authority
    cluster.network["serviceIpv4Cidr"] = endpoint.service_cidr
    cluster.status = "ACTIVE"


def stop(world: World, cluster: Cluster, forget: Callable[[], object]) -> None:
    """DELETING until its programs are gone; then `forget` is called."""
    cluster.status = "DELETING"

    def delete() -> None:
        if world.runtime is not None:
            try:
                world.runtime.delete_cluster(cluster.name)
            except Exception as error:
                log.exception("cluster %s was not deleted", cluster.name)
                with world.lock:
                    cluster.status = "FAILED"
                    cluster.issues = [Issue("InternalFailure", str(error), [cluster.arn])]
                return
        with world.lock:
            network.detach(cluster)
            forget()

    if world.runtime is None:
        world.after(0.5, delete)
    else:
        world.work(f"delete-cluster-{cluster.name}", delete)
