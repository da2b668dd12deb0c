"""Labels, taints, tags and environment variables: what Kubernetes and AWS refuse, and names that are not free."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator

from cluster.settings.base import Form, invalid

MAX_TAGS = 50
"""Tags of one resource (EKS CreateNodegroup, IAM CreateRole)."""
OWN_TAGS = ("Name", "shardyard:stack")
"""Tags that the program puts on resources."""
_SEGMENT = r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
_DOMAIN = r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?"
_KEY = rf"(?=.{{1,63}}$)({_DOMAIN}/)?{_SEGMENT}"
"""Syntax: Kubernetes, "Labels and Selectors". At most 63 characters with the prefix: EKS CreateNodegroup."""
RESERVED_LABEL_DOMAINS = ("kubernetes.io", "k8s.io", "eks.amazonaws.com", "shardyard.dev")
"""Domains whose labels Kubernetes ("Well-Known Labels"), EKS or this program set themselves. The kubelet
refuses to start with most labels of the first two (kubelet reference, --node-labels)."""
RESERVED_LABELS = ("nvidia.com/gpu.present", "vpc.amazonaws.com/efa.present")
"""Labels that place the device plugins (cluster/launch_template.py)."""


def _free_label(key: str) -> str:
    domain, slash, _ = key.rpartition("/")
    for reserved in RESERVED_LABEL_DOMAINS:
        if slash and (domain == reserved or domain.endswith(f".{reserved}")):
            raise invalid(
                f"labels of {reserved} are set by others",
                "Use a domain of your own, such as example.com/team.",
            )
    if key in RESERVED_LABELS:
        raise invalid(f"{key} is set by this program", "Remove it, or choose another key.")
    return key


def _free_tag(key: str) -> str:
    if key.lower().startswith("aws:"):
        raise invalid(f"{key!r}: tag keys with aws: are reserved for AWS", "Choose another prefix.")
    if key.lower() in {own.lower() for own in OWN_TAGS}:
        raise invalid(f"{key!r} is a tag that this program sets", "Choose another key.")
    return key


def _distinct_tags(tags: Mapping[str, str]) -> Mapping[str, str]:
    """IAM doesn't tell apart keys that differ in case only (IAM guide, "Rules for tagging")."""
    seen: dict[str, str] = {}
    for key in tags:
        if other := seen.get(key.lower()):
            raise invalid(
                f"{other!r} and {key!r} differ in case only, which IAM refuses", "Keep one of them."
            )
        seen[key.lower()] = key
    most = MAX_TAGS - len(OWN_TAGS)
    if len(tags) > most:
        raise invalid(
            f"{len(tags)} tags, and a resource has room for {most} beside {' and '.join(OWN_TAGS)}",
            f"Remove {len(tags) - most} of them.",
        )
    return tags


LabelKey = Annotated[
    str,
    Form(_KEY, "a label key: [domain/]name, at most 63 characters", "example.com/team"),
    AfterValidator(_free_label),
]
LabelValue = Annotated[str, Form(_SEGMENT, "a label value: 1 to 63 of A–Z, a–z, 0–9, -, _ and .", "research")]
Labels = dict[LabelKey, LabelValue]
"""Node labels. EKS refuses empty values, which Kubernetes accepts."""
TagKey = Annotated[
    str,
    Form(r"[\w .:/=+@-]{1,128}", "a tag key: 1 to 128 letters, digits, spaces and _.:/=+-@", "team"),
    AfterValidator(_free_tag),
]
TagValue = Annotated[
    str,
    Form(r"[\w .:/=+@-]{0,256}", "a tag value: at most 256 letters, digits, spaces and _.:/=+-@", "research"),
]
"""Characters and lengths: IAM CreateRole, the strictest of the services in use."""
Tags = Annotated[dict[TagKey, TagValue], AfterValidator(_distinct_tags)]
TaintKey = Annotated[str, Form(_KEY, "a taint key: [domain/]name, at most 63 characters", "example.com/team")]
TaintValue = Annotated[
    str, Form(rf"({_SEGMENT})?", "a taint value: at most 63 of A–Z, a–z, 0–9, -, _ and .", "research")
]
EnvironmentName = Annotated[
    str,
    Form(
        # Kubernetes' strict rule (apimachinery, IsEnvVarName), and not "." or "..".
        r"(?!\.\.)(?!\.$)[-._a-zA-Z][-._a-zA-Z0-9]*",
        "the name of an environment variable: letters, digits, _, - and ., no digit first",
        "NCCL_DEBUG",
    ),
]
