"""What a node group may be made of, before anything is launched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from moto.core.exceptions import ServiceException

from lab.aws.actions import ApiError, Call
from lab.aws.ec2.instance_types import instance_type
from lab.aws.ec2.tags import backend
from lab.aws.eks import versions
from lab.aws.eks.state import Cluster

AMI_TYPES = (
    "AL2023_x86_64_STANDARD",
    "AL2023_ARM_64_STANDARD",
    "AL2023_x86_64_NVIDIA",
    "AL2023_ARM_64_NVIDIA",
    "AL2023_x86_64_NEURON",
    "BOTTLEROCKET_x86_64",
    "BOTTLEROCKET_ARM_64",
    "BOTTLEROCKET_x86_64_NVIDIA",
    "BOTTLEROCKET_ARM_64_NVIDIA",
    "AL2_x86_64",
    "AL2_x86_64_GPU",
    "CUSTOM",
)
EFFECTS = ("NO_SCHEDULE", "NO_EXECUTE", "PREFER_NO_SCHEDULE")


def _invalid(message: str) -> ApiError:
    return ApiError("InvalidParameterException", message)


def check_sources(call: Call, cluster: Cluster, data: Mapping[str, Any]) -> None:
    """Subnets, launch template, types and image agree. Raises InvalidParameterException."""
    ec2 = backend(call)
    known = {subnet.id: subnet for subnet in ec2.describe_subnets()}
    for subnet in call["subnets"]:
        if subnet not in known:
            raise _invalid(f"The subnet ID '{subnet}' does not exist")
        if known[subnet].vpc_id != cluster.vpc["vpcId"]:
            raise _invalid(f"Subnet {subnet} is not in the cluster's VPC")
    if call.get("launchTemplate"):
        _check_template(call, data)
    types = list(call.get("instanceTypes", []))
    if types and data.get("InstanceType"):
        raise _invalid(
            "Instance types are in the launch template and in the node group; only one may name them."
        )
    for name in [*types, *filter(None, [data.get("InstanceType")])]:
        try:
            instance_type(name)
        except ServiceException as error:
            raise _invalid(error.message) from None
    _check_image(call, data)
    version = call.get("version")
    if version and versions.minor(versions.check(version)) > versions.minor(cluster.version):
        raise _invalid(
            f"Nodegroup Kubernetes version {version} is newer than the cluster's {cluster.version}"
        )


def _check_template(call: Call, data: Mapping[str, Any]) -> None:
    forbidden = {
        "SubnetId": any("SubnetId" in one for one in data.get("NetworkInterfaces", [])),
        "IamInstanceProfile": "IamInstanceProfile" in data,
        "HibernationOptions": "HibernationOptions" in data,
        "InstanceInitiatedShutdownBehavior": "InstanceInitiatedShutdownBehavior" in data,
    }
    for name, present in forbidden.items():
        if present:
            raise _invalid(f"Launch template should not specify {name}.")
    if call.get("diskSize"):
        raise _invalid("Disk size must be specified within the launch template.")
    if call.get("remoteAccess"):
        raise _invalid("Remote access configuration cannot be specified with a launch template.")
    if data.get("NetworkInterfaces") and data.get("SecurityGroupIds"):
        raise _invalid(
            "Security groups go in each network interface of the launch template, not beside them."
        )
    market = (data.get("InstanceMarketOptions") or {}).get("MarketType", "")
    if market == "spot":
        raise _invalid("Launch template should not request spot instances; use the capacity type SPOT.")
    block = call.get("capacityType") == "CAPACITY_BLOCK"
    if block != (market == "capacity-block"):
        raise _invalid("The capacity type CAPACITY_BLOCK and the market type capacity-block go together.")
    target = (data.get("CapacityReservationSpecification") or {}).get("CapacityReservationTarget")
    if block and not (target and data.get("InstanceType")):
        raise _invalid(
            "A capacity block needs an instance type and a reservation as target in the launch template."
        )


def _check_image(call: Call, data: Mapping[str, Any]) -> None:
    ami_type = call.get("amiType")
    if ami_type and ami_type not in AMI_TYPES:
        raise _invalid(f"The AMI type {ami_type} is invalid.")
    if data.get("ImageId"):
        if ami_type not in (None, "CUSTOM"):
            raise _invalid(
                "You cannot specify an AMI type other than CUSTOM when the launch template has an image ID."
            )
        if call.get("version") or call.get("releaseVersion"):
            raise _invalid("You cannot specify the field version or releaseVersion with a custom AMI.")
    elif ami_type == "CUSTOM":
        raise _invalid("AMI type CUSTOM needs an image ID in the launch template.")
    elif (data.get("UserData") or "") and ami_type is None:
        return


def check_scaling(scaling: Mapping[str, int]) -> None:
    low, high, wanted = scaling["minSize"], scaling["maxSize"], scaling["desiredSize"]
    if high < 1:
        raise _invalid("maxSize must be at least 1")
    if low > wanted:
        raise _invalid(f"Minimum capacity {low} can't be greater than desired size {wanted}")
    if wanted > high:
        raise _invalid(f"desired capacity {wanted} can't be greater than max size {high}")


def check_taints(taints: Sequence[Mapping[str, str]]) -> None:
    if len(taints) > 50:
        raise _invalid("A node group has at most 50 taints.")
    for taint in taints:
        if taint.get("effect") not in EFFECTS:
            raise _invalid(f"The taint effect {taint.get('effect')} is none of {', '.join(EFFECTS)}.")
