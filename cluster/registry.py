"""The trainer's image: a repository of its own, and a build that runs when the image's inputs change."""

from __future__ import annotations

import json
from pathlib import Path

import pulumi
import pulumi_aws as aws

from cluster import retention
from cluster.image_build import ROOT, BuiltImage
from cluster.image_inputs import Inputs
from cluster.settings.base import image_reference
from cluster.settings.sections import TrainerImage

CONTEXT = Path("trainer")
"""The build's context and all that the image is made of. Nothing else of the repository changes it."""


class Registry(pulumi.ComponentResource):
    """Output `image`: the reference by digest, or the finished image that the stack file names."""

    repository: aws.ecr.Repository
    image: pulumi.Output[str]

    def __init__(
        self,
        name: str,
        settings: TrainerImage,
        *,
        region: str,
        delete_images: bool,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("shardyard:cluster:Registry", name, None, opts)
        kept = retention.on_destroy(self, delete=delete_images)
        # No name of ours: one that is kept must not be in the way of a new stack of the same name.
        self.repository = aws.ecr.Repository(
            f"{name}-trainer",
            image_tag_mutability="IMMUTABLE",
            image_scanning_configuration=aws.ecr.RepositoryImageScanningConfigurationArgs(scan_on_push=True),
            force_delete=delete_images,
            tags=retention.tags(f"{name}-trainer", delete=delete_images),
            opts=kept,
        )
        aws.ecr.LifecyclePolicy(
            f"{name}-trainer", repository=self.repository.name, policy=keep_newest(settings.keep), opts=kept
        )
        if settings.reference:
            self.image = pulumi.Output.from_input(settings.reference)
        else:
            built = BuiltImage(
                f"{name}-trainer",
                repository=self.repository.repository_url,
                region=region,
                inputs=image_inputs(settings),
                opts=pulumi.ResourceOptions(parent=self),
            )
            self.image = built.reference
        self.register_outputs({"image": self.image, "repository": self.repository.repository_url})


def image_inputs(settings: TrainerImage) -> Inputs:
    """What the image of a stack is made of. `cluster.image_build.tag` of its digest is the image's tag:
    an image that is in the repository under that tag already is used, not built."""
    assert settings.base is not None  # without a reference there is a base, says the stack file's schema
    arguments = {"BASE": image_reference(settings.base), **settings.build_args}
    return Inputs(root=ROOT, context=CONTEXT, arguments=arguments)


def keep_newest(count: int) -> str:
    """An ECR lifecycle policy that expires all but the newest images."""
    rule = {
        "rulePriority": 1,
        "description": f"Keep the newest {count}",
        "selection": {"tagStatus": "any", "countType": "imageCountMoreThan", "countNumber": count},
        "action": {"type": "expire"},
    }
    return json.dumps({"rules": [rule]})
