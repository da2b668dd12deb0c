"""Other words for the stack file's keys: earlier names of ours, and those of AWS' API, eksctl and Terraform."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence

RENAMED: dict[tuple[str, str], str] = {
    # (section, old key): new key
    ("StackFile", "accounts"): "allowedAccountIds",
    ("StackFile", "pools"): "nodeGroups",
    ("StackFile", "systemPool"): "systemNodeGroup",
    ("NetworkSettings", "avoid"): "reservedCidrs",
    ("NetworkSettings", "flowLogDays"): "flowLogRetentionDays",
    ("NetworkSettings", "nat"): "natGateways",
    ("KubernetesSettings", "amiRelease"): "amiReleaseVersion",
    ("KubernetesSettings", "logDays"): "logRetentionDays",
    ("KubernetesSettings", "logs"): "logTypes",
    ("KubernetesSettings", "publicAccess"): "publicAccessCidrs",
    ("SystemNodeGroupSettings", "amiRelease"): "amiReleaseVersion",
    ("SystemNodeGroupSettings", "disk"): "rootVolume",
    ("NodeGroupSettings", "amiRelease"): "amiReleaseVersion",
    ("NodeGroupSettings", "disk"): "rootVolume",
    ("Efa", "layout"): "interfaceType",
    ("CapacityReservation", "resourceGroup"): "resourceGroupArn",
    ("CapacityBlock", "starts"): "startDate",
    ("CapacityBlock", "ends"): "endDate",
    ("FileSystemSettings", "throughput"): "perUnitStorageThroughput",
    ("Storage", "checkpointDays"): "checkpointExpirationDays",
    ("TrainerImage", "buildArguments"): "buildArgs",
    ("Job", "pool"): "nodeGroup",
    ("Training", "preparations"): "dataPreparationJobs",
    ("DataPreparationJob", "parallel"): "parallelism",
}

_DATA = "It is deleteData now: data is kept unless that is true."
REPLACED: dict[tuple[str, str], str] = {
    # (section, old key): what to write, where it is more than another name
    ("Storage", "keepData"): _DATA,
    ("Storage", "forceDestroy"): _DATA,
}

ELSEWHERE: dict[str, str] = {
    # a key of AWS' API, eksctl or Terraform, without case and punctuation: the path of ours
    "managednodegroups": "nodeGroups",
    "eksmanagednodegroups": "nodeGroups",
    "nodepools": "nodeGroups",
    "nodegroup": "nodeGroups",
    "vpc": "network",
    "vpccidr": "network.cidr",
    "availabilityzone": "nodeGroups.<name>.zone",
    "availabilityzones": "network.zones (and zone of a node group); by id, such as use1-az4",
    "azs": "network.zones; by id, such as use1-az4",
    "subnetids": "network.zones",
    "singlenatgateway": "network.natGateways: single",
    "onenatgatewayperaz": "network.natGateways: per-zone",
    "clusterversion": "kubernetes.version",
    "kubernetesversion": "kubernetes.version",
    "releaseversion": "amiReleaseVersion",
    "clusteraddons": "kubernetes.addons",
    "endpointpublicaccesscidrs": "kubernetes.publicAccessCidrs",
    "clusterendpointpublicaccesscidrs": "kubernetes.publicAccessCidrs",
    "clusterenabledlogtypes": "kubernetes.logTypes",
    "enabledlogtypes": "kubernetes.logTypes",
    "cloudwatch": "kubernetes.logTypes",
    "accessentries": "access",
    "iam": "access",
    "instancetypes": "instanceType; one for each node group",
    "minsize": "nodes.min",
    "desiredsize": "nodes.desired",
    "desiredcapacity": "nodes.desired",
    "maxsize": "nodes.max",
    "scalingconfig": "nodes: {min, desired, max}",
    "capacitytype": "capacity.kind",
    "capacityreservationid": "capacity.id",
    "capacityreservationtarget": "capacity.id",
    "capacityreservationspecification": "capacity",
    "capacityreservation": "capacity",
    "capacityreservationresourcegrouparn": "capacity.resourceGroupArn",
    "capacityblock": "capacity: {kind: capacity-block, …}",
    "odcr": "capacity: {kind: odcr, …}",
    "spot": "capacity: {kind: spot}",
    "ondemand": "capacity: {kind: on-demand}",
    "instancemarketoptions": "capacity.kind",
    "instancecount": "nodes, or create.nodes",
    "efaenabled": "efa",
    "enableefasupport": "efa",
    "networkinterfaces": "efa",
    "placement": "placementGroup",
    "disksize": "rootVolume.sizeGib",
    "volumesize": "rootVolume.sizeGib",
    "volumeiops": "rootVolume.iops",
    "volumethroughput": "rootVolume.throughputMib",
    "blockdevicemappings": "rootVolume",
    "maxpodspernode": "maxPods",
    "fsx": "storage.fileSystem",
    "storagecapacity": "capacityGib",
    "accountid": "allowedAccountIds",
    "minreplicas": "workers.min",
    "maxreplicas": "workers.max",
    "nprocpernode": "processesPerWorker",
    "env": "environment",
}


def normal(word: object) -> str:
    """Without case and punctuation: capacity_reservation_id and capacityReservationID are one word."""
    return re.sub(r"[^a-z0-9]", "", str(word).lower())


def renamed(section: str, key: str) -> str | None:
    """The present name of an old key, with any case and punctuation."""
    found = (new for (owner, old), new in RENAMED.items() if owner == section and normal(old) == normal(key))
    return next(found, None)


def same(key: str, known: Iterable[str]) -> str | None:
    """The known key that differs from `key` in case and punctuation only."""
    return next((one for one in known if normal(one) == normal(key)), None)


def nearest(word: object, known: Sequence[object], cutoff: float = 0.6) -> str | None:
    """The known word that is nearest, regardless of case and punctuation."""
    by_normal = {normal(one): str(one) for one in known}
    close = difflib.get_close_matches(normal(word), by_normal, n=1, cutoff=cutoff)
    return by_normal[close[0]] if close else None


def advice(section: str, key: str, known: Sequence[str]) -> str:
    """What to write instead of an unknown key."""
    if (section, key) in REPLACED:
        return REPLACED[section, key]
    if new := renamed(section, key):
        return f"It is called {new} now."
    if one := same(key, known):
        return f"Did you mean {one}?"
    if path := ELSEWHERE.get(normal(key)):
        return f"Here that is {path}."
    if close := nearest(key, known):
        return f"Did you mean {close}?"
    return f"Known here: {', '.join(sorted(known))}."
