"""A Pulumi resource that builds a container image and pushes it. Its output is the reference by digest.

It runs in the engine's process for dynamic resources. Paths are found next to this file and are not in
the state, so that the state is valid for every checkout.
"""

from __future__ import annotations

import base64
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from shutil import which
from typing import Any

import pulumi
from pulumi import dynamic

from cluster.image_inputs import Inputs
from cluster.settings.base import LOOPBACK_REGISTRY

ROOT = Path(__file__).resolve().parent.parent
_TAIL = 40
"""Lines of a failed command's output that the error repeats."""


class BuildFailed(Exception):
    """A command failed; the message ends with the last lines of its output."""


class _Provider(dynamic.ResourceProvider):
    """Builds on create. Another digest of the inputs is another image, never a change of this one."""

    serialize_as_secret_always = False  # it has no state

    def create(self, props: dict[str, Any]) -> dynamic.CreateResult:
        digest = find(props) or build(props)
        return dynamic.CreateResult(
            tag(props["inputs"]), {**props, "reference": f"{props['repository']}@{digest}"}
        )

    def diff(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> dynamic.DiffResult:
        changed = [key for key in ("repository", "context", "inputs") if _olds.get(key) != _news.get(key)]
        return dynamic.DiffResult(changes=bool(changed), replaces=changed, stables=["reference"])

    def read(self, id_: str, props: dict[str, Any]) -> dynamic.ReadResult:
        """An image that somebody deleted is gone from the state too, and built again by the next `up`."""
        return dynamic.ReadResult(id_ if find(props) else "", props)

    def delete(self, _id: str, _props: dict[str, Any]) -> None:
        """Images are deleted with their repository or by its lifecycle policy: an older job may still use one."""


class BuiltImage(dynamic.Resource, module="shardyard", name="BuiltImage"):
    """An image made of `inputs` in a repository of ECR."""

    reference: pulumi.Output[str]

    def __init__(
        self,
        name: str,
        *,
        repository: pulumi.Input[str],
        region: str,
        inputs: Inputs,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """Raises FileNotFoundError if there is no Dockerfile."""
        properties = {
            "repository": repository,
            "region": region,
            "context": inputs.context.as_posix(),
            "arguments": dict(inputs.arguments),
            "inputs": inputs.digest(),
            "reference": None,
        }
        super().__init__(_Provider(), name, properties, opts)


def tag(inputs: str) -> str:
    """The image's tag, from the digest of its inputs: the same inputs are never pushed twice to an immutable tag."""
    return f"inputs-{inputs[:20]}"


def find(props: Mapping[str, Any]) -> str | None:
    """The digest of the image, if the repository has it already."""
    client = _ecr(props["region"])
    try:
        found = client.describe_images(
            repositoryName=_repository_name(props["repository"]),
            imageIds=[{"imageTag": tag(props["inputs"])}],
        )
    except (client.exceptions.ImageNotFoundException, client.exceptions.RepositoryNotFoundException):
        return None
    return str(found["imageDetails"][0]["imageDigest"])


def build(props: Mapping[str, Any]) -> str:
    """Build and push; returns the digest. Raises BuildFailed."""
    builder = next((name for name in ("buildah", "podman", "docker") if which(name)), None)
    if builder is None:
        raise BuildFailed("no program here builds images: install buildah (or podman, or docker)")
    reference = f"{props['repository']}:{tag(props['inputs'])}"
    with tempfile.TemporaryDirectory(prefix="shardyard-") as scratch:
        # Credentials of this push only; the user's own files are neither read nor written.
        credentials = Path(scratch) / "config.json"
        credentials.write_text('{"auths": {}}')
        environment = {**os.environ, "REGISTRY_AUTH_FILE": str(credentials), "DOCKER_CONFIG": scratch}
        _run(build_command(builder, reference, props), environment)
        loopback = bool(LOOPBACK_REGISTRY.match(reference))
        if not loopback:
            _log_in(builder, props, environment)
        if builder == "docker":
            _run([builder, "push", reference], environment)
            shown = _run([builder, "inspect", "--format", "{{index .RepoDigests 0}}", reference], environment)
            return shown.strip().rpartition("@")[2]
        digest = Path(scratch) / "digest"
        verify = ["--tls-verify=false"] if loopback else []
        _run(
            [builder, "push", *verify, "--digestfile", str(digest), reference, f"docker://{reference}"],
            environment,
        )
        return digest.read_text().strip()


def build_command(builder: str, reference: str, props: Mapping[str, Any]) -> list[str]:
    """The build's command line, run from the repository's root. The Dockerfile is in the context."""
    arguments = [f"--build-arg={key}={value}" for key, value in sorted(props["arguments"].items())]
    platform = "--platform=linux/amd64"  # of every accelerated instance type
    file = f"{props['context']}/Dockerfile"
    return [builder, "build", platform, *arguments, "--file", file, "--tag", reference, props["context"]]


def _log_in(builder: str, props: Mapping[str, Any], environment: Mapping[str, str]) -> None:
    """With a short-lived token, which is written to no state."""
    answer = _ecr(props["region"]).get_authorization_token()["authorizationData"][0]
    user, _, password = base64.b64decode(answer["authorizationToken"]).decode().partition(":")
    host = props["repository"].partition("/")[0]
    _run([builder, "login", "--username", user, "--password-stdin", host], environment, text=password)


def _repository_name(url: str) -> str:
    return url.partition("/")[2]


def _ecr(region: str) -> Any:
    import boto3  # only when an image is built; the program itself calls no AWS API

    return boto3.client("ecr", region_name=region)


def _run(command: Sequence[str], environment: Mapping[str, str], text: str | None = None) -> str:
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=dict(environment),
        input=text or "",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        tail = "\n".join(done.stdout.splitlines()[-_TAIL:])
        raise BuildFailed(f"`{' '.join(command[:2])}` failed ({done.returncode}):\n{tail}")
    return done.stdout
