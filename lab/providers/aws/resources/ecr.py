"""ECR: repositories and their policies."""

from __future__ import annotations

from lab.providers.aws.table import Autoname, Call, Property, Resource, Step, Tags, out

_NAME = {"repositoryName": "{id}"}

REPOSITORY = Resource(
    "aws:ecr/repository:Repository",
    service="ecr",
    id="{name}",
    inputs=[
        Property("name", api="repositoryName", replaces=True),
        Property("imageTagMutability", default="MUTABLE"),
        Property("imageScanningConfiguration", default={"scanOnPush": False}),
        Property(
            "encryptionConfigurations",
            api="encryptionConfiguration",
            read="[encryptionConfiguration]",  # one here, a list of one in pulumi-aws
            replaces=True,
            computed=True,
        ),
        Property("forceDelete", default=False, local=True),
    ],
    outputs=[
        out("arn", "repositoryArn"),
        out("repositoryUrl", "repositoryUri"),
        out("registryId"),
    ],
    create=Call("CreateRepository"),
    read=Call("DescribeRepositories", {"repositoryNames": ["{id}"]}, result="repositories[0]"),
    delete=Call("DeleteRepository", {**_NAME, "force": "{forceDelete}"}),
    steps=[
        Step(["imageTagMutability"], Call("PutImageTagMutability", _NAME), on_create=False),
        Step(["imageScanningConfiguration"], Call("PutImageScanningConfiguration", _NAME), on_create=False),
        Step(["forceDelete"], lambda operation: None),
    ],
    missing=["RepositoryNotFoundException"],
    tags=Tags(
        add="TagResource",
        remove="UntagResource",
        target={"resourceArn": "{arn}"},
        keys="tagKeys",
        fetch=Call("ListTagsForResource", {"resourceArn": "{arn}"}, result="tags"),
    ),
    autoname=Autoname(lower=True),
)

LIFECYCLE_POLICY = Resource(
    "aws:ecr/lifecyclePolicy:LifecyclePolicy",
    service="ecr",
    id="{repository}",
    inputs=[
        Property("repository", api="repositoryName", replaces=True),
        # ECR knows no change of it, and neither does terraform: a new policy replaces the old one.
        Property("policy", api="lifecyclePolicyText", json=True, replaces=True),
    ],
    outputs=[out("registryId")],
    create=Call("PutLifecyclePolicy"),
    read=Call("GetLifecyclePolicy", _NAME),
    delete=Call("DeleteLifecyclePolicy", _NAME),
    missing=["RepositoryNotFoundException", "LifecyclePolicyNotFoundException"],
    delete_before_replace=True,
)

REPOSITORY_POLICY = Resource(
    "aws:ecr/repositoryPolicy:RepositoryPolicy",
    service="ecr",
    id="{repository}",
    inputs=[
        Property("repository", api="repositoryName", replaces=True),
        Property("policy", api="policyText", json=True),
    ],
    outputs=[out("registryId")],
    create=Call("SetRepositoryPolicy"),
    read=Call("GetRepositoryPolicy", _NAME),
    delete=Call("DeleteRepositoryPolicy", _NAME),
    steps=[Step(["policy"], Call("SetRepositoryPolicy", _NAME), on_create=False)],
    missing=["RepositoryNotFoundException", "RepositoryPolicyNotFoundException"],
    eventual=["Invalid repository policy provided"],
)

RESOURCES = [REPOSITORY, LIFECYCLE_POLICY, REPOSITORY_POLICY]
