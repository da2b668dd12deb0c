"""A client of the image registry's API (OCI distribution specification), as far as ECR needs it."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass

import requests

log = logging.getLogger(__name__)
MANIFESTS = ", ".join(
    (
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.docker.distribution.manifest.v2+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
    )
)
TIMEOUT = 5.0
"""Seconds; the registry is on loopback."""


@dataclass(frozen=True)
class Manifest:
    digest: str
    media_type: str
    content: str

    @property
    def size(self) -> int:
        """Bytes of configuration and layers, compressed as the registry holds them."""
        parsed = json.loads(self.content)
        parts = [parsed.get("config", {}), *parsed.get("layers", []), *parsed.get("manifests", [])]
        return sum(part.get("size", 0) for part in parts)


class Registry:
    """The registry at `host` (localhost:14500). One that isn't running holds nothing."""

    def __init__(self, host: str) -> None:
        self.base = f"http://{host}/v2"
        self._session = requests.Session()
        self._session.trust_env = False  # loopback, whatever proxies are configured

    def _ask(self, method: str, path: str) -> requests.Response | None:
        try:
            return self._session.request(
                method,
                f"{self.base}/{path}",
                headers={"Accept": MANIFESTS},
                timeout=TIMEOUT,
                allow_redirects=False,
            )
        except requests.ConnectionError:
            log.warning("no image registry at %s", self.base)
            return None

    def tags(self, repository: str) -> list[str]:
        answer = self._ask("GET", f"{repository}/tags/list")
        if answer is None or answer.status_code == 404:
            return []
        answer.raise_for_status()
        return sorted(answer.json().get("tags") or [])

    def digest(self, repository: str, reference: str) -> str | None:
        """The digest of a tag or digest, or None if it isn't there."""
        answer = self._ask("HEAD", f"{repository}/manifests/{reference}")
        return answer.headers.get("Docker-Content-Digest") if answer is not None and answer.ok else None

    def manifest(self, repository: str, digest: str) -> Manifest:
        answer = self._ask("GET", f"{repository}/manifests/{digest}")
        if answer is None:
            raise ConnectionError(f"no image registry at {self.base}")
        answer.raise_for_status()
        return Manifest(digest, answer.headers["Content-Type"], answer.text)

    def delete(self, repository: str, digest: str) -> None:
        """Needs a registry with deletion enabled; one that is gone already is fine."""
        answer = self._ask("DELETE", f"{repository}/manifests/{digest}")
        if answer is not None and answer.status_code != 404:
            answer.raise_for_status()
