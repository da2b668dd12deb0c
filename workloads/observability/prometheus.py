"""Prometheus on the system pool. It finds the trainers through DNS, and so needs no leave to ask Kubernetes."""

from __future__ import annotations

import hashlib
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes
import yaml

from cluster.launch_template import POOL_LABEL
from cluster.settings import Settings
from cluster.settings.base import image_reference
from cluster.settings.sections import PrometheusSettings
from workloads.kubernetes import Kubernetes
from workloads.training_job import COMPONENT, METRICS_PORT

NAMESPACE, NAME, PORT = "observability", "prometheus", 9090
LABELS = {"app.kubernetes.io/name": NAME}
TRAINERS = "trainers"
"""A Service without an address of its own: its name stands for the addresses of all training pods."""
_NO_AWAIT = {"pulumi.com/skipAwait": "true"}
"""A Service without pods is right as it is; the engine would wait for some."""


class Prometheus(pulumi.ComponentResource):
    """Deployment, Service and configuration, and the Service by which it finds training pods."""

    address: str
    """Inside the cluster."""
    forward: str
    """The command that brings it to one's own machine."""

    def __init__(
        self, name: str, settings: Settings, target: Kubernetes, opts: pulumi.ResourceOptions
    ) -> None:
        super().__init__("shardyard:workloads:Prometheus", name, None, opts)
        self.address = f"http://{NAME}.{NAMESPACE}.svc.cluster.local:{PORT}"
        self.forward = f"kubectl -n {NAMESPACE} port-forward service/{NAME} {PORT}"
        kubernetes.core.v1.Service(
            f"{name}-{TRAINERS}",
            metadata={"name": TRAINERS, "namespace": settings.training.namespace, "annotations": _NO_AWAIT},
            spec={
                "cluster_ip": "None",
                "selector": COMPONENT,
                "publish_not_ready_addresses": True,
                "ports": [{"name": "metrics", "port": METRICS_PORT}],
            },
            opts=target.object(self),
        )
        place = kubernetes.core.v1.Namespace(
            f"{name}-{NAMESPACE}", metadata={"name": NAMESPACE}, opts=target.object(self)
        )
        inside = target.object(self, depends_on=[place])
        metadata = {"name": NAME, "namespace": NAMESPACE, "labels": LABELS}
        config = configuration(settings.training.namespace)
        files = kubernetes.core.v1.ConfigMap(
            f"{name}-{NAME}", metadata=metadata, data={"prometheus.yml": config}, opts=inside
        )
        kubernetes.apps.v1.Deployment(
            f"{name}-{NAME}",
            metadata=metadata,
            spec=deployment_spec(
                image_reference(settings.images.prometheus), settings.observability.prometheus, config
            ),
            opts=target.object(self, depends_on=[files]),
        )
        kubernetes.core.v1.Service(
            f"{name}-{NAME}",
            metadata={**metadata, "annotations": _NO_AWAIT},
            spec={"selector": LABELS, "ports": [{"name": "http", "port": PORT, "target_port": PORT}]},
            opts=inside,
        )
        self.register_outputs({"address": self.address})


def configuration(namespace: str) -> str:
    """prometheus.yml: every training pod, at the trainer's port."""
    trainers = {
        "names": [f"{TRAINERS}.{namespace}.svc.cluster.local"],
        "type": "A",
        "port": METRICS_PORT,
        "refresh_interval": "5s",
    }
    return yaml.safe_dump(
        {
            "global": {"scrape_interval": "5s", "scrape_timeout": "4s"},
            "scrape_configs": [{"job_name": TRAINERS, "dns_sd_configs": [trainers]}],
        },
        sort_keys=False,
    )


def deployment_spec(image: str, settings: PrometheusSettings, config: str) -> dict[str, Any]:
    """One replica. Its data lives as long as its pod."""
    return {
        "replicas": 1,
        "selector": {"match_labels": LABELS},
        "strategy": {"type": "Recreate"},
        "template": {
            "metadata": {
                "labels": LABELS,
                "annotations": {"shardyard.dev/config-digest": hashlib.sha256(config.encode()).hexdigest()},
            },
            "spec": {
                "automount_service_account_token": False,
                "node_selector": {POOL_LABEL: "system"},
                "security_context": {
                    "run_as_non_root": True,
                    "run_as_user": 65534,
                    "fs_group": 65534,
                    "seccomp_profile": {"type": "RuntimeDefault"},
                },
                "containers": [
                    {
                        "name": NAME,
                        "image": image,
                        "args": [
                            "--config.file=/etc/prometheus/prometheus.yml",
                            "--storage.tsdb.path=/prometheus",
                            f"--storage.tsdb.retention.time={settings.retention}",
                        ],
                        "ports": [{"name": "http", "container_port": PORT}],
                        "readiness_probe": {
                            "http_get": {"path": "/-/ready", "port": PORT},
                            "period_seconds": 5,
                        },
                        "resources": {
                            "requests": {"cpu": "100m", "memory": settings.memory},
                            "limits": {"memory": settings.memory},
                        },
                        "security_context": {
                            "allow_privilege_escalation": False,
                            "read_only_root_filesystem": True,
                            "capabilities": {"drop": ["ALL"]},
                        },
                        "volume_mounts": [
                            {"name": "config", "mount_path": "/etc/prometheus", "read_only": True},
                            {"name": "data", "mount_path": "/prometheus"},
                        ],
                    }
                ],
                "volumes": [
                    {"name": "config", "config_map": {"name": NAME}},
                    {"name": "data", "empty_dir": {"size_limit": settings.disk}},
                ],
            },
        },
    }
