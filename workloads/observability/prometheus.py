"""Prometheus on the system pool. It finds the trainers through DNS, and so needs no leave to ask Kubernetes."""

from __future__ import annotations

import hashlib

import pulumi
import yaml

from cluster.labels import POOL_LABEL
from cluster.settings import Settings
from cluster.settings.base import image_reference
from cluster.settings.sections import PrometheusSettings
from workloads.kubernetes import Kubernetes
from workloads.manifests import Manifest
from workloads.objects import Object
from workloads.training_job import COMPONENT, METRICS_PORT

NAMESPACE, NAME, PORT = "observability", "prometheus", 9090
LABELS = {"app.kubernetes.io/name": NAME}
METADATA = {"name": NAME, "namespace": NAMESPACE, "labels": LABELS}
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
        config = configuration(settings.training.namespace)
        trainers = trainers_service(settings.training.namespace)
        Object(f"{name}-{TRAINERS}", trainers, target.object(self))
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        place = Object(f"{name}-{NAMESPACE}", namespace, target.object(self))
        files = Object(f"{name}-{NAME}", config_map(config), target.object(self, depends_on=[place]))
        server = deployment(
            image_reference(settings.images.prometheus), settings.observability.prometheus, config
        )
        Object(f"{name}-{NAME}", server, target.object(self, depends_on=[files]))
        Object(f"{name}-{NAME}", service(), target.object(self, depends_on=[place]))
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


def trainers_service(namespace: str) -> Manifest:
    """Headless: its name stands for the addresses of all training pods."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": TRAINERS, "namespace": namespace, "annotations": _NO_AWAIT},
        "spec": {
            "clusterIP": "None",
            "selector": COMPONENT,
            "publishNotReadyAddresses": True,
            "ports": [{"name": "metrics", "port": METRICS_PORT}],
        },
    }


def service() -> Manifest:
    """Prometheus' own."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {**METADATA, "annotations": _NO_AWAIT},
        "spec": {"selector": LABELS, "ports": [{"name": "http", "port": PORT, "targetPort": PORT}]},
    }


def config_map(config: str) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": METADATA,
        "data": {"prometheus.yml": config},
    }


def deployment(image: str, settings: PrometheusSettings, config: str) -> Manifest:
    """One replica. Its data lives as long as its pod."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": METADATA,
        "spec": _deployment_spec(image, settings, config),
    }


def _deployment_spec(image: str, settings: PrometheusSettings, config: str) -> Manifest:
    return {
        "replicas": 1,
        "selector": {"matchLabels": LABELS},
        "strategy": {"type": "Recreate"},
        "template": {
            "metadata": {
                "labels": LABELS,
                "annotations": {"shardyard.dev/config-digest": hashlib.sha256(config.encode()).hexdigest()},
            },
            "spec": {
                "automountServiceAccountToken": False,
                "nodeSelector": {POOL_LABEL: "system"},
                "securityContext": {
                    "runAsNonRoot": True,
                    "runAsUser": 65534,
                    "fsGroup": 65534,
                    "seccompProfile": {"type": "RuntimeDefault"},
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
                        "ports": [{"name": "http", "containerPort": PORT}],
                        "readinessProbe": {
                            "httpGet": {"path": "/-/ready", "port": PORT},
                            "periodSeconds": 5,
                        },
                        "resources": {
                            "requests": {"cpu": "100m", "memory": settings.memory},
                            "limits": {"memory": settings.memory},
                        },
                        "securityContext": {
                            "allowPrivilegeEscalation": False,
                            "readOnlyRootFilesystem": True,
                            "capabilities": {"drop": ["ALL"]},
                        },
                        "volumeMounts": [
                            {"name": "config", "mountPath": "/etc/prometheus", "readOnly": True},
                            {"name": "data", "mountPath": "/prometheus"},
                        ],
                    }
                ],
                "volumes": [
                    {"name": "config", "configMap": {"name": NAME}},
                    {"name": "data", "emptyDir": {"sizeLimit": settings.disk}},
                ],
            },
        },
    }
