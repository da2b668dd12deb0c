"""Launch templates: what moto leaves out of their versions."""

from __future__ import annotations

from typing import Any

from lab.aws.actions import Call, action, after
from lab.aws.ec2.tags import backend, tags_of


@after("ec2", "CreateLaunchTemplate")
def data_as_given(call: Call, result: dict[str, Any]) -> None:
    """moto puts the template's own tags among those that it gives to instances; AWS doesn't."""
    template = backend(call).get_launch_template(result["LaunchTemplate"]["LaunchTemplateId"])
    template.versions[0].data = dict(call["LaunchTemplateData"])
    result["LaunchTemplate"]["Tags"] = tags_of(call, template.id)


@after("ec2", "DescribeLaunchTemplates", "ModifyLaunchTemplate")
def present_tags(call: Call, result: dict[str, Any]) -> None:
    """moto remembers the tags of the creation; CreateTags and DeleteTags change them."""
    one = [result["LaunchTemplate"]] if "LaunchTemplate" in result else result["LaunchTemplates"]
    for template in one:
        template["Tags"] = tags_of(call, template["LaunchTemplateId"])


@action("ec2", "CreateLaunchTemplateVersion")
def create_launch_template_version(call: Call) -> dict[str, Any]:
    """With SourceVersion, the members given here go over those of that version."""
    ec2 = backend(call)
    if template_id := call.get("LaunchTemplateId"):
        template = ec2.get_launch_template(template_id)
    else:
        template = ec2.get_launch_template_by_name(call["LaunchTemplateName"])
    source = call.get("SourceVersion")
    inherited = template.get_version(source).data if source else {}
    version = template.create_version(
        {**inherited, **call["LaunchTemplateData"]}, call.get("VersionDescription")
    )
    return {
        "LaunchTemplateVersion": {
            "LaunchTemplateId": template.id,
            "LaunchTemplateName": template.name,
            "VersionNumber": version.number,
            "VersionDescription": version.description,
            "CreateTime": version.create_time,
            "CreatedBy": f"arn:aws:iam::{call.account}:root",
            "DefaultVersion": template.is_default(version),
            "LaunchTemplateData": version.data,
        }
    }
