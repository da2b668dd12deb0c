"""From a node group to one instance and the node that it becomes."""

from __future__ import annotations

from typing import Any

from moto.core.exceptions import ServiceException
from moto.ec2.models import EC2Backend, ec2_backends
from moto.ec2.models.instances import Instance

from lab.aws.ec2.instance_types import InstanceType, instance_type, interfaces_of_card
from lab.aws.ec2.launch import EFA, launch, template_data
from lab.aws.eks.images import image_id
from lab.aws.eks.state import Cluster, Nodegroup
from lab.aws.world import World
from lab.nodes.api import NodeSpec, Taint

EFFECTS = {"NO_SCHEDULE": "NoSchedule", "NO_EXECUTE": "NoExecute", "PREFER_NO_SCHEDULE": "PreferNoSchedule"}
KUBELET_TAG = "lab:kubelet"
"""A node group tagged lab:kubelet=real gets nodes with a kubelet, and so does one without accelerators unless tagged
lab:kubelet=fake: operators and DNS must run. All other nodes are played."""

MEMORY = {"p4de.24xlarge": "1146004920Ki", "p5.48xlarge": "2052371068Ki"}
"""Allocatable memory of EKS nodes that somebody looked at; other types' is computed."""
HUGE_PAGES = {"p4d.24xlarge": "21122Mi", "p4de.24xlarge": "21122Mi"}
"""2 MiB pages that EKS's accelerated image sets aside for EFA; p5's are taken for the types after it too."""
HUGE_PAGES_P5 = "42242Mi"
OVERHEAD = 0.975
"""The part of the memory that is left after firmware and kernel took theirs (p5: 2002 of 2048 GiB)."""
FEW_CPUS = 30
"""EKS caps the pods of a node at 110 up to here, and at 250 above."""


def template_of(ec2: EC2Backend, group: Nodegroup) -> dict[str, Any]:
    """The data of the group's launch template, or nothing."""
    template = group.launch_template
    return template_data(
        ec2, template and {"LaunchTemplateId": template["id"], "Version": template["version"]}
    )


def launch_one(world: World, cluster: Cluster, group: Nodegroup) -> Instance:
    """Launch an instance in the first subnet, and of the first type, that can have it.

    Takes turns among the subnets. Raises the last error of EC2 if none can.
    """
    ec2 = ec2_backends[cluster.account][cluster.region]
    data = _with_groups(template_of(ec2, group), cluster)
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


def _with_groups(data: dict[str, Any], cluster: Cluster) -> dict[str, Any]:
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


def node_spec(cluster: Cluster, group: Nodegroup, instance: Instance) -> NodeSpec:
    ec2 = ec2_backends[cluster.account][cluster.region]
    facts, data = instance_type(instance.instance_type), template_of(ec2, group)
    subnet = ec2.get_subnet(instance.subnet_id)
    efa = sum(one.get("InterfaceType") in EFA for one in data.get("NetworkInterfaces", []))
    devices = {"nvidia.com/gpu": facts.gpus, "vpc.amazonaws.com/efa": efa}
    pods = max_pods(facts)
    return NodeSpec(
        name=instance.private_dns_name,
        instance_id=instance.id,
        instance_type=facts.name,
        region=cluster.region,
        zone=subnet.availability_zone,
        zone_id=subnet.availability_zone_id,
        private_ip=str(instance.private_ip),
        nodegroup=group.name,
        labels=_labels(
            group, cluster.region, subnet.availability_zone, subnet.availability_zone_id, facts.name
        ),
        taints=[Taint(one["key"], one.get("value", ""), EFFECTS[one["effect"]]) for one in group.taints],
        cpu=f"{allocatable_millicpus(facts.cpus)}m",
        memory=allocatable_memory(facts, pods),
        pods=pods,
        resources=huge_pages(facts),
        devices={name: count for name, count in devices.items() if count},
        real=group.tags.get(KUBELET_TAG, "fake" if facts.gpus else "real") == "real",
    )


def _labels(group: Nodegroup, region: str, zone: str, zone_id: str, type_name: str) -> dict[str, str]:
    template = group.launch_template
    managed = {
        "eks.amazonaws.com/nodegroup": group.name,
        "eks.amazonaws.com/nodegroup-image": _image(group),
        "eks.amazonaws.com/capacityType": group.capacity_type,
        "node.kubernetes.io/instance-type": type_name,
        "topology.kubernetes.io/region": region,
        "topology.kubernetes.io/zone": zone,
        "topology.k8s.aws/zone-id": zone_id,
    }
    if template:
        managed["eks.amazonaws.com/sourceLaunchTemplateId"] = template["id"]
        managed["eks.amazonaws.com/sourceLaunchTemplateVersion"] = template["version"]
    return {**group.labels, **managed}


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
