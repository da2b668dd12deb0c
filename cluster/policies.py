"""IAM policy documents, as plain data."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pulumi

Statement = Mapping[str, Any]


def document(*statements: Statement) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)}, sort_keys=True)


def allow(actions: Sequence[str], resources: Sequence[str]) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": sorted(actions), "Resource": list(resources)}


def trust_service(*services: str, actions: Sequence[str] = ("sts:AssumeRole",)) -> str:
    """A trust policy for AWS services."""
    principal = {"Service": sorted(services)}
    return document({"Effect": "Allow", "Principal": principal, "Action": sorted(actions)})


def trust_principals(principals: Sequence[str]) -> str:
    """A trust policy for users and roles. An account's root means whoever its administrators allow."""
    return document({"Effect": "Allow", "Principal": {"AWS": sorted(principals)}, "Action": "sts:AssumeRole"})


def output(build: Any, **values: pulumi.Input[Any]) -> pulumi.Output[str]:
    """A document of values that are known later: build(**values) → statements."""
    return pulumi.Output.all(**values).apply(lambda known: document(*build(**known)))
