"""Prometheus on the system pool. It finds the trainers' pods by their annotations."""

from __future__ import annotations

import hashlib
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes
import yaml

from cluster.launch_template import POOL_LABEL
from cluster.settings import Settings
from cluster.settings.base import image_reference
from cluster.settings.sections import Prometheus as PrometheusSettings
from workloads.kubernetes import Kubernetes

NAMESPACE, NAME, PORT = "observability", "prometheus", 9090
LABELS = {"app.kubernetes.io/name": NAME}


class Prometheus(pulumi.ComponentResource):
    """Deployment, Service and configuration, with leave to list the pods of the training namespace."""

    address: str
    """Inside the cluster."""
    forward: str
    """The command that brings it to one's own machine."""

    def __init__(
        self,
        name: str,
        settings: Settings,
        target: Kubernetes,
        opts: pulumi.ResourceOptions,
    ) -> None:
        super().__init__("shardyard:workloads:Prometheus", name, None, opts)
        self.address = f"http://{NAME}.{NAMESPACE}.svc.cluster.local:{PORT}"
        self.forward = f"kubectl -n {NAMESPACE} port-forward service/{NAME} {PORT}"
        place = kubernetes.core.v1.Namespace(
            f"{name}-{NAMESPACE}", metadata={"name": NAMESPACE}, opts=target.object(self)
        )
        inside = target.object(self, depends_on=[place])
        metadata = {"name": NAME, "namespace": NAMESPACE, "labels": LABELS}
        account = kubernetes.core.v1.ServiceAccount(f"{name}-{NAME}", metadata=metadata, opts=inside)
        self._see_pods(name, settings.training.namespace, target, account)
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
            opts=target.object(self, depends_on=[files, account]),
        )
        kubernetes.core.v1.Service(
            f"{name}-{NAME}",
            metadata={
                **metadata,
                "annotations": {"pulumi.com/skipAwait": "true"},
            },  # the Deployment was awaited
            spec={"selector": LABELS, "ports": [{"name": "http", "port": PORT, "target_port": PORT}]},
            opts=inside,
        )
        self.register_outputs({"address": self.address})

    def _see_pods(self, name: str, namespace: str, target: Kubernetes, account: pulumi.Resource) -> None:
        label = f"{NAME}-discovery"
        options = target.object(self, depends_on=[account])
        kubernetes.rbac.v1.Role(
            f"{name}-{label}",
            metadata={"name": label, "namespace": namespace},
            rules=[{"api_groups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}],
            opts=options,
        )
        kubernetes.rbac.v1.RoleBinding(
            f"{name}-{label}",
            metadata={"name": label, "namespace": namespace},
            role_ref={"api_group": "rbac.authorization.k8s.io", "kind": "Role", "name": label},
            subjects=[{"kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE}],
            opts=options,
        )


def configuration(namespace: str) -> str:
    """prometheus.yml: every running pod of the namespace with prometheus.io/scrape, at the port it names."""
    meta = "__meta_kubernetes_pod"
    relabel = [
        {"source_labels": [f"{meta}_annotation_prometheus_io_scrape"], "action": "keep", "regex": "true"},
        {"source_labels": [f"{meta}_phase"], "action": "keep", "regex": "Running"},
        {
            # A pod is discovered once for each declared port; keep one target, at the annotated port.
            "source_labels": [f"{meta}_ip", f"{meta}_annotation_prometheus_io_port"],
            "regex": "(.+);(.+)",
            "target_label": "__address__",
            "replacement": "$1:$2",
        },
        {"source_labels": [f"{meta}_label_shardyard_dev_job"], "target_label": "training_job"},
        {"source_labels": [f"{meta}_name"], "target_label": "pod"},
        {"source_labels": [f"{meta}_node_name"], "target_label": "node"},
    ]
    return yaml.safe_dump(
        {
            "global": {"scrape_interval": "5s", "scrape_timeout": "4s"},
            "scrape_configs": [
                {
                    "job_name": "trainers",
                    "kubernetes_sd_configs": [{"role": "pod", "namespaces": {"names": [namespace]}}],
                    "relabel_configs": relabel,
                }
            ],
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
                "service_account_name": NAME,
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
