"""The whole of one stack's settings, and the top-level keys of a stack file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from cluster.settings.base import AccountId, Name, Region, Section
from cluster.settings.images import Images
from cluster.settings.metadata import Tags
from cluster.settings.node_groups import NodeGroupSettings, SystemNodeGroupSettings
from cluster.settings.sections import (
    Access,
    KubernetesSettings,
    NetworkSettings,
    Observability,
    Storage,
    TrainerImage,
    Training,
)

PROJECT = "shardyard"


class StackFile(Section):
    """The keys below `shardyard:`, each with its type. Only the schema: the sections are validated one by one."""

    region: Region
    allowed_account_ids: Annotated[tuple[AccountId, ...], Field(examples=[["123456789012"]])] = ()
    tags: Tags = Field(default_factory=dict)
    network: NetworkSettings
    kubernetes: KubernetesSettings
    access: Access = Access()
    system_node_group: SystemNodeGroupSettings
    node_groups: dict[Name, NodeGroupSettings] = Field(default_factory=dict)
    storage: Storage
    image: Annotated[TrainerImage, Field(examples=[{"base": f"registry.example.com/base@sha256:{'0' * 64}"}])]
    images: Images = Images()
    training: Training = Training()
    observability: Observability = Observability()


@dataclass(frozen=True)
class Settings:
    """All settings of one stack. `directory` is what the stack file's relative paths start from."""

    stack: str
    directory: Path
    region: str
    allowed_account_ids: tuple[str, ...]
    """The only accounts that this stack may be created in. Empty: any."""
    tags: Mapping[str, str]
    network: NetworkSettings
    kubernetes: KubernetesSettings
    access: Access
    system_node_group: SystemNodeGroupSettings
    node_groups: Mapping[str, NodeGroupSettings]
    storage: Storage
    image: TrainerImage
    images: Images
    training: Training
    observability: Observability

    @property
    def name(self) -> str:
        """The cluster's name, and the prefix of all other names."""
        return f"{PROJECT}-{self.stack}"


PARTS = frozenset({*(field.name for field in fields(Settings)), "node_group_names", "now"})
"""What checks can compare: the settings, the names of all node groups (invalid ones included), the time."""


def top_level() -> dict[str, Any]:
    """Every key of the stack file with its pydantic field."""
    return {field.alias or name: field for name, field in StackFile.model_fields.items()}
