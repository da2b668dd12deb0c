"""From a node group to one instance and the node that it becomes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from moto.core.exceptions import ServiceException
from moto.ec2.models import EC2Backend, ec2_backends
from moto.ec2.models.instances import Instance

from lab.aws.ec2.instance_types import InstanceType, instance_type, interfaces_of_card
from lab.aws.ec2.launch import EFA, ROOT_DEVICES, launch, template_data
from lab.aws.eks.images import image_id
from lab.aws.eks.node_config import NodeConfig, NotMime, read_user_data
from lab.aws.eks.state import Cluster, Nodegroup
from lab.aws.world import World
from lab.nodes.api import NodeSpec, Taint

EFFECTS = {"NO_SCHEDULE": "NoSchedule", "NO_EXECUTE": "NoExecute", "PREFER_NO_SCHEDULE": "PreferNoSchedule"}
KUBELET_TAG = "lab:kubelet"
"""A node group tagged lab:kubelet=real gets nodes with a kubelet, and so does one without accelerators unless tagged
lab:kubelet=fake: operators and DNS must run. All other nodes are simulated."""

MEMORY = {"p4de.24xlarge": "1146004920Ki", "p5.48xlarge": "2052371068Ki"}
"""Allocatable memory of EKS nodes that somebody looked at; other types' is computed."""
HUGE_PAGES = {"p4d.24xlarge": "21122Mi", "p4de.24xlarge": "21122Mi"}
"""2 MiB pages that EKS's accelerated image sets aside for EFA; p5's are taken for the types after it too."""
HUGE_PAGES_P5 = "42242Mi"
OVERHEAD = 0.975
"""The part of the memory that is left after firmware and kernel took theirs (p5: 2002 of 2048 GiB)."""
IMAGE_GIB = 20
"""The root volume of EKS's images unless somebody says otherwise."""
FEW_CPUS = 30
"""EKS caps the pods of a node at 110 up to here, and at 250 above."""


@dataclass(frozen=True)
class Template:
    """A node group's launch template, read once for all who need something of it."""

    data: Mapping[str, Any]
    """Empty without a template."""
    config: NodeConfig

    @property
    def efa_interfaces(self) -> int:
        return sum(one.get("InterfaceType") in EFA for one in self.data.get("NetworkInterfaces", []))


def read_template(ec2: EC2Backend, group: Nodegroup) -> Template:
    """Raises NodeConfigError for user data that no node can start with."""
    reference = group.launch_template
    data = template_data(
        ec2, reference and {"LaunchTemplateId": reference["id"], "Version": reference["version"]}
    )
    try:
        return Template(data, read_user_data(data.get("UserData")))
    except NotMime:
        if group.ami_type != "CUSTOM":
            raise
        return Template(data, NodeConfig())  # an image of one's own reads what it likes


def launch_one(world: World, cluster: Cluster, group: Nodegroup, template: Template) -> Instance:
    """Launch an instance in the first subnet, and of the first type, that can have it.

    Takes turns among the subnets. Raises the last error of EC2 if none can.
    """
    ec2 = ec2_backends[cluster.account][cluster.region]
    data = _with_groups(template.data, cluster)
    if group.capacity_type == "SPOT":
        data["InstanceMarketOptions"] = {"MarketType": "spot"}
    data.setdefault("ImageId", _image(group))
    turn = len(group.instances) % len(group.subnets)
    failure: ServiceException | None = None
    for subnet_id in [*group.subnets[turn:], *group.subnets[:turn]]:
        for type_name in group.instance_types or [data["InstanceType"]]:
            try:
                data["SubnetId"], data["InstanceType"] = subnet_id, type_name
                return launch(world, ec2, data, 1, _tags(cluster, group)).instances[0]
            except ServiceException as error:
                failure = error
    assert failure is not None
    raise failure


def _with_groups(data: Mapping[str, Any], cluster: Cluster) -> dict[str, Any]:
    """The cluster's security group, wherever the template names none."""
    cluster_group = [cluster.vpc["clusterSecurityGroupId"]]
    interfaces = [{"Groups": cluster_group, **one} for one in data.get("NetworkInterfaces", [])]
    if interfaces:
        return {**data, "NetworkInterfaces": interfaces}
    return {"SecurityGroupIds": cluster_group, **data}


def _image(group: Nodegroup) -> str:
    return (
        group.release_version
        if group.ami_type == "CUSTOM"
        else image_id(group.ami_type, group.release_version)
    )


def _tags(cluster: Cluster, group: Nodegroup) -> dict[str, str]:
    return {
        "aws:autoscaling:groupName": group.autoscaling_group,
        "eks:cluster-name": cluster.name,
        "eks:nodegroup-name": group.name,
        f"kubernetes.io/cluster/{cluster.name}": "owned",
    }


def node_spec(cluster: Cluster, group: Nodegroup, instance: Instance, template: Template) -> NodeSpec:
    """The node that the instance becomes: its type's resources, as the template's user data changes them."""
    ec2 = ec2_backends[cluster.account][cluster.region]
    facts, config = instance_type(instance.instance_type), template.config
    subnet = ec2.get_subnet(instance.subnet_id)
    devices = {"nvidia.com/gpu": facts.gpus, "vpc.amazonaws.com/efa": template.efa_interfaces}
    return NodeSpec(
        name=instance.private_dns_name,
        instance_id=instance.id,
        instance_type=facts.name,
        region=cluster.region,
        zone=subnet.availability_zone,
        zone_id=subnet.availability_zone_id,
        private_ip=str(instance.private_ip),
        nodegroup=group.name,
        labels={**config.labels, **_labels(group)},
        taints=[Taint(one["key"], one.get("value", ""), EFFECTS[one["effect"]]) for one in group.taints],
        cpu=f"{allocatable_millicpus(facts.cpus)}m",
        memory=allocatable_memory(facts, max_pods(facts)),  # nodeadm reserves by the type's own number
        pods=config.max_pods or max_pods(facts),
        resources={**huge_pages(facts), **ephemeral_storage(facts, template, group)},
        devices={name: count for name, count in devices.items() if count},
        real=group.tags.get(KUBELET_TAG, "fake" if facts.gpus else "real") == "real",
    )


def _labels(group: Nodegroup) -> dict[str, str]:
    """The group's own labels, and those that EKS adds (lab.nodes adds the cloud provider's)."""
    template = group.launch_template
    managed = {
        "eks.amazonaws.com/nodegroup-image": _image(group),
        "eks.amazonaws.com/capacityType": group.capacity_type,
    }
    if template:
        managed["eks.amazonaws.com/sourceLaunchTemplateId"] = template["id"]
        managed["eks.amazonaws.com/sourceLaunchTemplateVersion"] = template["version"]
    return {**group.labels, **managed}


def ephemeral_storage(facts: InstanceType, template: Template, group: Nodegroup) -> dict[str, str]:
    """Allocatable bytes of the file system that holds kubelet's and containerd's state.

    RAID0 and RAID10 put it on the instance store volumes; without them, or mounted one by one, it is on the root
    volume. Kubelet evicts when a tenth is free, and keeps 1 GiB (nodeadm).
    """
    share = {"RAID0": 1.0, "RAID10": 0.5}.get(template.config.storage_strategy, 0.0)
    total = int(facts.instance_store_gb * 10**9 * share) or _root_volume_gib(template, group) * 2**30
    return {"ephemeral-storage": str(int(total * 0.9) - 2**30)}


def _root_volume_gib(template: Template, group: Nodegroup) -> int:
    for mapping in template.data.get("BlockDeviceMappings", []):
        size = (mapping.get("Ebs") or {}).get("VolumeSize")
        if size and mapping["DeviceName"] in ROOT_DEVICES:
            return int(size)
    return group.disk_size or IMAGE_GIB


def allocatable_millicpus(cpus: int) -> int:
    """What kubelet leaves to pods on EKS: it keeps 6 % of the first core, 1 % of the second, 0.5 % of the
    next two and 0.25 % of the others (awslabs/amazon-eks-ami, nodeadm)."""
    kept = 60.0
    for core in range(1, cpus):
        kept += 10 if core == 1 else 5 if core < 4 else 2.5
    return cpus * 1000 - int(kept)


def allocatable_memory(facts: InstanceType, pods: int) -> str:
    """Kibibytes: kubelet keeps 255 MiB, 11 MiB a pod, and 100 MiB below which it evicts (same source)."""
    if facts.name in MEMORY:
        return MEMORY[facts.name]
    return f"{int((facts.memory_mib * OVERHEAD - 255 - 11 * pods - 100) * 1024)}Ki"


def huge_pages(facts: InstanceType) -> dict[str, str]:
    if not (facts.gpus and facts.efa_interfaces):
        return {}
    return {"hugepages-2Mi": HUGE_PAGES.get(facts.name, HUGE_PAGES_P5)}


def max_pods(facts: InstanceType) -> int:
    """Interfaces of card 0, each with its addresses but one, and the two pods on the host's network."""
    interfaces = interfaces_of_card(facts.name, 0)
    addresses = interfaces * (facts.addresses_per_interface - 1) + 2
    return min(addresses, 110 if facts.cpus <= FEW_CPUS else 250)
