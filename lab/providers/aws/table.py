"""The vocabulary of the table: a Resource says in data what its type's calls, inputs and outputs are.

Parameters in a Call are a template: "{id}" stands for the resource's id and "{vpcId}" for that property
of its state. Properties of the same name go to the members of the operation's input by themselves
(lab.providers.aws.convert); only what is irregular needs saying.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from lab.providers.aws.operation import Operation


@dataclass(frozen=True)
class Property:
    """One input or output, by the name pulumi-aws gives it."""

    name: str
    api: str = ""
    """Where it goes in the create call: a dotted path. Empty: the member that has its name."""
    read: str = ""
    """JMESPath into the description, where it isn't `api` or the member of its name."""
    replaces: bool = False
    """A change needs a new resource."""
    default: Any = None
    """What holds when the program says nothing; equal to leaving it out."""
    computed: bool = False
    """AWS chooses when the program says nothing: no change when it's left out."""
    ordered: bool = False
    """A list whose order matters (most are sets)."""
    json: bool = False
    """A JSON document in a string: compared by meaning."""
    local: bool = False
    """Never sent or read: it steers this provider (forceDestroy and the like)."""
    unread: bool = False
    """Sent, but AWS doesn't tell it back."""
    secret: bool = False
    names: Mapping[str, str] = field(default_factory=dict)
    """Names inside the value that differ from the API's: {"securityGroups": "Groups"}."""
    single: bool = False
    """An object here, a list with one element there."""
    volatile: bool = False
    """An output that any update changes: unknown while an update is previewed."""


def inputs(*names: str, **flags: Any) -> tuple[Property, ...]:
    """Several inputs that differ only in name."""
    return tuple(Property(name, **flags) for name in names)


def out(name: str, read: str = "", **flags: Any) -> Property:
    """An output: what the description holds at `read`, or at the member of its name."""
    return Property(name, read=read, **flags)


@dataclass(frozen=True)
class Call:
    """An operation of the service with its fixed parameters."""

    operation: str
    """As in the API reference: "CreateSubnet"."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    result: str = ""
    """JMESPath to the description of the one resource in a read call's response."""
    inside: str = ""
    """The member of the input that holds most properties ("LaunchTemplateData")."""
    more: Callable[[Operation], Mapping[str, Any]] | None = None
    """Computes further parameters, for what names alone can't map."""


Create = Call | Callable[["Operation"], str]
"""A function creates and returns the id."""
Read = Call | Callable[["Operation"], Mapping[str, Any] | None]
"""A function returns the description, or None if there is no such resource."""
Action = Call | Callable[["Operation"], Any]


@dataclass(frozen=True)
class Step:
    """How a change of any of `properties` is made. It also runs after the create call, for
    properties which that call doesn't take and which are set to other than their default."""

    properties: Sequence[str]
    action: Action
    on_create: bool = True


@dataclass(frozen=True)
class Status:
    """A description's state and what its values mean, for resources that take a while."""

    path: str
    """JMESPath into the description."""
    ready: frozenset[str]
    failed: frozenset[str] = frozenset()
    gone: frozenset[str] = frozenset()
    """Still described, but as good as deleted ("cancelled")."""
    reason: Callable[[Mapping[str, Any]], Iterable[str]] | None = None
    """What the description says about a failure, a line each."""
    minutes: float = 20
    """How long a change may take when the program sets no custom timeout."""


@dataclass(frozen=True)
class Tags:
    """How a type is tagged. Calls that take tags get them in the form of their model."""

    add: str = ""
    remove: str = ""
    target: Mapping[str, Any] = field(default_factory=dict)
    """Parameters that name the resource in both calls."""
    put: Callable[[Operation, Mapping[str, str]], Any] | None = None
    """Instead of `add` and `remove`, for services that take all tags at once."""
    member: str = "Tags"
    """Of the create call and of the description."""
    keys: str = "TagKeys"
    """The member of `remove` that takes the keys."""
    form: Literal["list", "map", "specifications"] = "list"
    key: str = "Key"
    value: str = "Value"
    kind: str = ""
    """EC2's resource type for TagSpecifications."""
    fetch: Call | None = None
    """Reads the tags, where the description has none; `result` points at them."""
    on_create: bool = True
    """Whether the create call, or the function that creates, gives the tags."""


@dataclass(frozen=True)
class Autoname:
    """The name that pulumi-aws makes up: the resource's name, "-" and seven random hex digits."""

    property: str = "name"
    prefix: str = ""
    """The property that gives only the start of the name ("namePrefix"), if there is one."""
    longest: int = 255
    lower: bool = False
    leading: str = ""
    """"alias/" for KMS aliases."""


@dataclass(frozen=True)
class Resource:
    """One resource type: the table entry."""

    token: str
    """pulumi's type token, "aws:ec2/subnet:Subnet"."""
    service: str
    """botocore's service name."""
    id: str
    """JMESPath into the create call's response, or a format of inputs ("{clusterName}:{addonName}")."""
    inputs: Sequence[Property]
    create: Create
    read: Read
    delete: Action | None
    checked_by: str = ""
    """The operation whose model inputs are checked against, where `create` is a function."""
    outputs: Sequence[Property] = ()
    steps: Sequence[Step] = ()
    extend: Callable[[Operation, Mapping[str, Any]], Mapping[str, Any]] | None = None
    """Properties that take more than the description: further calls or arithmetic."""
    missing: Sequence[str] = ()
    """Error codes by which AWS says that there is no such resource."""
    status: Status | None = None
    tags: Tags | None = None
    autoname: Autoname | None = None
    check: Callable[[Mapping[str, Any]], Iterable[tuple[str, str]]] | None = None
    """Rules between inputs: yields (property, what is wrong). Values may be UNKNOWN."""
    busy: Sequence[str] = ("DependencyViolation",)
    """Error codes that mean: not now; changes and deletes are tried again for a while."""
    eventual: Sequence[str] = ()
    """Parts of messages that a create call gives until IAM has caught up."""
    delete_before_replace: bool = False
    regional: bool = True
    """Whether the type has pulumi-aws 7's `region` input."""
    delete_waits: bool = False
    """Poll until a deleted resource is no longer described."""

    @property
    def by_name(self) -> dict[str, Property]:
        """All inputs, the ones that every type has included."""
        found = {each.name: each for each in self.inputs}
        if self.regional:
            found["region"] = Property("region", replaces=True, computed=True, local=True)
        if self.tags:
            found["tags"] = Property("tags", default={}, local=True)
            found["tagsAll"] = Property("tagsAll", default={}, local=True)
        return found
