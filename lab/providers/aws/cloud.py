"""The provider's configuration and its connections: the only place where a client of AWS is made.

Every endpoint is checked to be on loopback before the first call, because whatever runs here creates and
deletes what it is told to: with a real endpoint and real keys in the environment that would be a real account.
"""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

import botocore.session
from botocore.config import Config
from botocore.model import ServiceModel

from lab.providers.aws.wire import UNKNOWN

PROVIDER_TOKEN = "pulumi:providers:aws"
_ACCEPTED = frozenset(
    {
        "region",
        "accessKey",
        "secretKey",
        "token",
        "profile",
        "endpoints",
        "defaultTags",
        "allowedAccountIds",
        # Taken and without effect: nothing to do differently for an AWS on loopback.
        "maxRetries",
        "s3UsePathStyle",
        "skipCredentialsValidation",
        "skipRequestingAccountId",
        "skipMetadataApiCheck",
        "skipRegionValidation",
        "version",
        "pluginDownloadURL",
    }
)


class ConfigurationError(Exception):
    """The provider can't run like this; names the property at fault."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(reason)
        self.name = name


def require_loopback(url: str, source: str) -> str:
    """The URL, if its host is this machine; raises ConfigurationError otherwise.

    Names other than "localhost" are refused without looking them up: a name can point anywhere later.
    """
    host = urlsplit(url).hostname or ""
    try:
        loopback = host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        loopback = False
    if not loopback:
        raise ConfigurationError(
            "endpoints",
            f"{source} is {url!r}, which isn't on this machine: this is the lab's AWS plugin and it talks only "
            "to an AWS on loopback, such as http://127.0.0.1:14566. For AWS itself, take lab/providers/bin "
            "off PATH and use the vendor's plugin.",
        )
    return url


def _structured(value: Any) -> Any:
    """Provider inputs that aren't strings travel as JSON in strings."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        return json.loads(value)
    return value


@dataclass(frozen=True)
class Settings:
    """The provider's inputs, parsed. `endpoints` maps botocore's service names to URLs, "" to the default."""

    region: str
    endpoints: Mapping[str, str]
    default_tags: Mapping[str, str] = field(default_factory=dict)
    allowed_account_ids: tuple[str, ...] = ()
    access_key: str | None = None
    secret_key: str | None = None
    token: str | None = None
    profile: str | None = None

    @classmethod
    def parse(cls, given: Mapping[str, Any], environment: Mapping[str, str] | None = None) -> Settings:
        """Raises ConfigurationError for the first input that can't be."""
        environment = os.environ if environment is None else environment
        inputs = {name: _structured(value) for name, value in given.items() if value is not None}
        for name in inputs:
            if name not in _ACCEPTED and not name.startswith("__"):
                raise ConfigurationError(name, f"the lab's AWS plugin has no setting {name!r}")
        endpoints = dict(cls._endpoints(inputs.get("endpoints") or [], environment))
        if not endpoints:
            raise ConfigurationError(
                "endpoints",
                "no endpoint: set AWS_ENDPOINT_URL (or aws:endpoints) to the lab's AWS on loopback",
            )
        region = (
            inputs.get("region") or environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
        )
        if not region:
            raise ConfigurationError(
                "region", "no region: set aws:region, the provider's region or AWS_REGION"
            )
        return cls(
            region=region,
            endpoints=endpoints,
            default_tags=(inputs.get("defaultTags") or {}).get("tags") or {},
            allowed_account_ids=tuple(inputs.get("allowedAccountIds") or ()),
            access_key=inputs.get("accessKey"),
            secret_key=inputs.get("secretKey"),
            token=inputs.get("token"),
            profile=inputs.get("profile"),
        )

    @staticmethod
    def _endpoints(given: Any, environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        for variable, url in environment.items():
            if variable == "AWS_ENDPOINT_URL" and url:
                yield "", require_loopback(url, variable)
        for entry in [given] if isinstance(given, Mapping) else given:
            for service, url in entry.items():
                if url and url is not UNKNOWN:
                    yield _botocore_name(service), require_loopback(url, f"aws:endpoints for {service}")


def _botocore_name(service: str) -> str:
    """pulumi-aws spells services without a hyphen and knows a few by other names."""
    return {"cloudwatchlogs": "logs", "configservice": "config"}.get(service, service)


class Cloud:
    """Clients by service and region, made once and shared between threads (botocore's clients allow it)."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._lock = threading.Lock()
        self._clients: dict[tuple[str, str], Any] = {}

    @cached_property
    def _session(self) -> botocore.session.Session:
        session = botocore.session.Session(profile=self.settings.profile)
        session.register_component("data_loader", _loader)  # models are parsed once
        return session

    def client(self, service: str, region: str | None = None) -> Any:
        """Raises ConfigurationError if the service has no endpoint on loopback."""
        key = (service, region or self.settings.region)
        with self._lock:
            if key not in self._clients:
                self._clients[key] = self._connect(*key)
            return self._clients[key]

    def _connect(self, service: str, region: str) -> Any:
        url = self.settings.endpoints.get(service) or self.settings.endpoints.get("")
        if not url:
            raise ConfigurationError("endpoints", f"no endpoint on loopback for {service}")
        settings = self.settings
        return self._session.create_client(
            service,
            region_name=region,
            aws_access_key_id=settings.access_key,
            aws_secret_access_key=settings.secret_key,
            aws_session_token=settings.token,
            endpoint_url=require_loopback(url, f"the endpoint of {service}"),
            config=Config(
                # The engine tells us how long an operation may take; throttling alone never fails one early.
                retries={"mode": "standard", "total_max_attempts": 12},
                connect_timeout=10,
                read_timeout=120,
                max_pool_connections=64,
                proxies={},
                s3={"addressing_style": "path"},
                ignore_configured_endpoint_urls=True,
            ),
        )

    @cached_property
    def account(self) -> str:
        return str(self.client("sts").get_caller_identity()["Account"])

    @property
    def partition(self) -> str:
        region = self.settings.region
        return (
            "aws-cn" if region.startswith("cn-") else "aws-us-gov" if region.startswith("us-gov-") else "aws"
        )

    def verify_reachable(self) -> None:
        """Raises ConfigurationError if nobody listens: botocore would try again for minutes."""
        for url in sorted(set(self.settings.endpoints.values())):
            parts = urlsplit(url)
            try:
                socket.create_connection((parts.hostname or "", parts.port or 80), timeout=10).close()
            except OSError as error:
                raise ConfigurationError(
                    "endpoints", f"nothing answers at {url} ({error}): is the lab up? `make status` says"
                ) from error

    def verify_account(self) -> None:
        """Raises ConfigurationError if allowedAccountIds doesn't name the account we are in."""
        allowed = self.settings.allowed_account_ids
        if allowed and self.account not in allowed:
            raise ConfigurationError(
                "allowedAccountIds", f"the account is {self.account}, allowed: {', '.join(sorted(allowed))}"
            )


_models: dict[str, ServiceModel] = {}
_models_lock = threading.Lock()
_loader = botocore.session.Session().get_component("data_loader")


def model(service: str) -> ServiceModel:
    """botocore's description of a service; needs no credentials and no connection."""
    with _models_lock:
        if service not in _models:
            _models[service] = ServiceModel(_loader.load_service_model(service, "service-2"), service)
        return _models[service]
