"""EC2 launch templates: every change of the contents is a new version."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lab.providers.aws.operation import Operation, search
from lab.providers.aws.resources.ec2_common import ec2_tags
from lab.providers.aws.table import Autoname, Call, Property, Resource, Step, inputs, out

_CONTENTS = [
    *inputs("imageId", "instanceType", "keyName", "kernelId", "ramDiskId", "ebsOptimized"),
    *inputs("disableApiStop", "disableApiTermination", "instanceInitiatedShutdownBehavior"),
    Property("userData"),
    Property("vpcSecurityGroupIds", api="SecurityGroupIds"),
    *inputs(
        "blockDeviceMappings", "cpuOptions", "creditSpecification", "enclaveOptions", "hibernationOptions"
    ),
    *inputs("capacityReservationSpecification", "iamInstanceProfile", "instanceMarketOptions"),
    *inputs("licenseSpecifications", "maintenanceOptions", "metadataOptions", "monitoring", "placement"),
    *inputs("privateDnsNameOptions", "tagSpecifications"),
    Property(
        "networkInterfaces",
        names={"securityGroups": "Groups", "ipv4AddressCount": "SecondaryPrivateIpAddressCount"},
    ),
]
_CONTENT_NAMES = [prop.name for prop in _CONTENTS]


def _new_version(operation: Operation) -> None:
    answer = operation.run(
        Call(
            "CreateLaunchTemplateVersion",
            {"LaunchTemplateId": "{id}", "LaunchTemplateData": {}, "VersionDescription": "{description}"},
            inside="LaunchTemplateData",
        ),
        _CONTENTS,
    )
    if operation.inputs.get("updateDefaultVersion"):
        _set_default(operation, answer["LaunchTemplateVersion"]["VersionNumber"])


def _set_default(operation: Operation, version: int | None = None) -> None:
    """Make a version the default one: the newest, or the one the program names."""
    wanted = version or operation.inputs.get("defaultVersion")
    if operation.inputs.get("updateDefaultVersion") and version is None:
        wanted = search("LaunchTemplates[0].LatestVersionNumber", operation.run(_DESCRIBE))
    if wanted:
        operation.call("ModifyLaunchTemplate", LaunchTemplateId=operation.id, DefaultVersion=str(wanted))


_DESCRIBE = Call("DescribeLaunchTemplates", {"LaunchTemplateIds": ["{id}"]})


def _read(operation: Operation) -> Mapping[str, Any] | None:
    template = search("LaunchTemplates[0]", operation.run(_DESCRIBE))
    if not template:
        return None
    newest = operation.call(
        "DescribeLaunchTemplateVersions", LaunchTemplateId=operation.id, Versions=["$Latest"]
    )["LaunchTemplateVersions"][0]
    contents = newest.get("LaunchTemplateData", {})
    return {**contents, **template, "VersionDescription": newest.get("VersionDescription")}


LAUNCH_TEMPLATE = Resource(
    "aws:ec2/launchTemplate:LaunchTemplate",
    service="ec2",
    id="LaunchTemplate.LaunchTemplateId",
    inputs=[
        Property("name", api="LaunchTemplateName", replaces=True),
        Property("namePrefix", replaces=True, local=True),
        Property("description", api="VersionDescription"),
        Property("updateDefaultVersion", default=False, local=True),
        Property("defaultVersion", read="DefaultVersionNumber", computed=True),
        *_CONTENTS,
    ],
    outputs=[out("arn"), out("latestVersion", "LatestVersionNumber", volatile=True)],
    create=Call("CreateLaunchTemplate", {"LaunchTemplateData": {}}, inside="LaunchTemplateData"),
    read=_read,
    delete=Call("DeleteLaunchTemplate", {"LaunchTemplateId": "{id}"}),
    steps=[
        Step(["description", *_CONTENT_NAMES], _new_version, on_create=False),
        Step(["updateDefaultVersion", "defaultVersion"], _set_default, on_create=False),
    ],
    extend=lambda operation, description: {"arn": operation.arn("ec2", f"launch-template/{operation.id}")},
    missing=["InvalidLaunchTemplateId.NotFound", "InvalidLaunchTemplateId.NotFoundException"],
    tags=ec2_tags("launch-template"),
    autoname=Autoname(prefix="namePrefix", longest=125),
)

RESOURCES = [LAUNCH_TEMPLATE]
