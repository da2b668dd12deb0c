"""The kubeconfig of a cluster: it gets its tokens from the aws CLI, so it holds no secret."""

from __future__ import annotations

from typing import Any

import pulumi

_EXEC_API = "client.authentication.k8s.io/v1beta1"


def kubeconfig(
    name: str, endpoint: str, certificate: str | None, region: str, role: str | None, profile: str | None
) -> dict[str, Any]:
    """The same object as pulumi-eks 4.4.0 makes."""
    arguments = ["--region", region, "eks", "get-token", "--cluster-name", name, "--output", "json"]
    if role:
        arguments += ["--role", role]
    if profile:
        arguments += ["--profile", profile]
    return {
        "apiVersion": "v1",
        "clusters": [
            {
                "cluster": {"server": endpoint, "certificate-authority-data": certificate},
                "name": "kubernetes",
            }
        ],
        "contexts": [{"context": {"cluster": "kubernetes", "user": "aws"}, "name": "aws"}],
        "current-context": "aws",
        "kind": "Config",
        "users": [
            {
                "name": "aws",
                "user": {
                    "exec": {
                        "apiVersion": _EXEC_API,
                        "command": "aws",
                        "args": arguments,
                        "env": [
                            {"name": "KUBERNETES_EXEC_INFO", "value": f'{{"apiVersion": "{_EXEC_API}"}}'}
                        ],
                    }
                },
            }
        ],
    }


def of_cluster(cluster: Any, credentials: Any, with_profile: bool) -> pulumi.Output[dict[str, Any]]:
    """From an aws.eks.Cluster. `credentials` is pulumi-eks's providerCredentialOpts."""

    def make(values: list[Any]) -> dict[str, Any]:
        name, endpoint, authority, arn, options = values
        options = options or {}
        return kubeconfig(
            name,
            endpoint,
            authority.data if hasattr(authority, "data") else (authority or {}).get("data"),
            arn.split(":")[3],
            options.get("roleArn"),
            options.get("profileName") if with_profile else None,
        )

    return pulumi.Output.all(
        cluster.name, cluster.endpoint, cluster.certificate_authority, cluster.arn, credentials
    ).apply(make)
