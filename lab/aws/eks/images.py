"""EKS's machine images: their releases and ids, and the public parameters that name them."""

from __future__ import annotations

import hashlib
import re

from moto.core.utils import utcnow
from moto.ssm.models import Parameter, ssm_backends

from lab.aws.actions import Call, before

RELEASE_DATE = "20260801"
"""Of the release that is "recommended" here, for every Kubernetes version."""
PATCH = 9
"""Kubernetes patch version in that release."""
NAME = re.compile(
    r"^/aws/service/eks/optimized-ami/(?P<version>1\.\d+)/amazon-linux-2023/(?P<arch>x86_64|arm64)/"
    r"(?P<variant>standard|nvidia|neuron)/(?P<image>recommended|amazon-eks-node-[\w.-]+-v(?P<date>\d{8}))/"
    r"(?P<field>image_id|release_version|image_name)$"
)
AMI_TYPES = {
    ("x86_64", "standard"): "AL2023_x86_64_STANDARD",
    ("x86_64", "nvidia"): "AL2023_x86_64_NVIDIA",
    ("x86_64", "neuron"): "AL2023_x86_64_NEURON",
    ("arm64", "standard"): "AL2023_ARM_64_STANDARD",
    ("arm64", "nvidia"): "AL2023_ARM_64_NVIDIA",
}


def release(version: str, date: str = RELEASE_DATE) -> str:
    """Such as 1.34.9-20260801."""
    return f"{version}.{PATCH}-{date}"


def image_id(ami_type: str, release_version: str) -> str:
    """The same for the same image type and release, today and tomorrow."""
    return f"ami-{hashlib.sha256(f'{ami_type} {release_version}'.encode()).hexdigest()[:17]}"


@before("ssm", "GetParameter", "GetParameters")
def public_parameters(call: Call) -> None:
    """Make the parameter of an EKS image when somebody asks for it."""
    parameters = ssm_backends[call.account][call.region]._parameters
    for name in [call["Name"]] if "Name" in call.parameters else call["Names"]:
        match = NAME.match(name)
        ami_type = match and AMI_TYPES.get((match["arch"], match["variant"]))
        if not match or not ami_type or parameters.get(name):
            continue
        date = match["date"] or RELEASE_DATE
        release_version = release(match["version"], date)
        value = {
            "image_id": image_id(ami_type, release_version),
            "release_version": release_version,
            "image_name": f"amazon-eks-node-al2023-{match['arch']}-{match['variant']}-{match['version']}-v{date}",
        }[match["field"]]
        parameters[name].append(
            Parameter(call.account, name, value, "String", None, None, None, utcnow(), 1, "text")
        )
