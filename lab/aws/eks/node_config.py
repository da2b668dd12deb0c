"""What a node reads in its user data: nodeadm's NodeConfig (awslabs/amazon-eks-ami, nodeadm/api/v1alpha1)."""

from __future__ import annotations

import base64
import binascii
import email
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

API_VERSION = "node.eks.aws/v1alpha1"
CONTENT_TYPE = "application/node.eks.aws"
STRATEGIES = ("Mount", "RAID0", "RAID10")
"""Of spec.instance.localStorage: what becomes of the instance store volumes."""


class NodeConfigError(ValueError):
    """The user data is of a form that a node can't start with."""


class NotMime(NodeConfigError):
    """EKS can't add its own part to user data that isn't a MIME multi-part message."""


@dataclass(frozen=True)
class NodeConfig:
    """The settings that show on the Node object; None and empty where the user data says nothing."""

    max_pods: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    storage_strategy: str = ""


def read_user_data(text: str | None) -> NodeConfig:
    """The configuration in a launch template's user data (base64). Raises NodeConfigError.

    Parts of other types, such as shell scripts, run on the node and are not looked at. Of several NodeConfigs
    the later one wins, setting by setting, as nodeadm merges them.
    """
    if not text:
        return NodeConfig()
    try:
        message = email.message_from_bytes(base64.b64decode(text, validate=True))
    except binascii.Error as error:
        raise NodeConfigError(f"User data is not base64: {error}") from None
    if not message.is_multipart():
        raise NotMime("User data was not in the MIME multipart format.")
    spec: dict[str, Any] = {}
    for part in message.walk():
        if part.get_content_type() == CONTENT_TYPE:
            content = part.get_payload(decode=True)
            assert isinstance(content, bytes)
            spec = _merged(spec, _spec(content))
    return _config(spec)


def _spec(content: bytes) -> dict[str, Any]:
    try:
        parsed = yaml.safe_load(content)
    except yaml.YAMLError as error:
        raise NodeConfigError(f"NodeConfig is not YAML: {error}") from None
    if not isinstance(parsed, dict):
        raise NodeConfigError("NodeConfig is not an object")
    if (parsed.get("apiVersion"), parsed.get("kind")) != (API_VERSION, "NodeConfig"):
        raise NodeConfigError(f"expected apiVersion {API_VERSION} and kind NodeConfig")
    return _object(parsed, "spec")


def _object(parent: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = parent.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise NodeConfigError(f"{name} in NodeConfig is not an object")
    return value


def _merged(base: dict[str, Any], override: Mapping[str, Any]) -> dict[str, Any]:
    """Objects are merged member by member, lists are appended, anything else is replaced."""
    merged = dict(base)
    for name, value in override.items():
        earlier = merged.get(name)
        if isinstance(earlier, dict) and isinstance(value, dict):
            merged[name] = _merged(earlier, value)
        elif isinstance(earlier, list) and isinstance(value, list):
            merged[name] = [*earlier, *value]
        else:
            merged[name] = value
    return merged


def _config(spec: Mapping[str, Any]) -> NodeConfig:
    kubelet = _object(spec, "kubelet")
    flags = kubelet.get("flags") or []
    if not isinstance(flags, list) or not all(isinstance(flag, str) for flag in flags):
        raise NodeConfigError("flags in NodeConfig is not a list of strings")
    values = dict(flag.lstrip("-").partition("=")[::2] for flag in flags)
    # A kubelet's flag goes over its configuration file.
    max_pods = values.get("max-pods", _object(kubelet, "config").get("maxPods"))
    strategy = _object(_object(spec, "instance"), "localStorage").get("strategy", "")
    if strategy not in ("", *STRATEGIES):
        raise NodeConfigError(f"localStorage.strategy {strategy} is none of {', '.join(STRATEGIES)}")
    return NodeConfig(_count(max_pods), _labels(values.get("node-labels", "")), strategy)


def _count(value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not str(value).isascii() or not str(value).isdecimal() or int(value) < 1:
        raise NodeConfigError(f"maxPods {value} is not a positive number")
    return int(value)


def _labels(text: str) -> dict[str, str]:
    """key=value,key=value as --node-labels has them."""
    pairs = [pair.partition("=") for pair in text.split(",") if pair]
    for key, equals, _ in pairs:
        if not key or not equals:
            raise NodeConfigError(f"--node-labels={text} is not of the form key=value,key=value")
    return {key: value for key, _, value in pairs}
