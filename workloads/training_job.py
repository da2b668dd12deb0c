"""A training job: the trainer's configuration as a ConfigMap, and a PyTorchJob that runs it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

import pulumi

from cluster.identity import SERVICE_ACCOUNT
from cluster.labels import POOL_LABEL
from cluster.settings import Settings
from cluster.settings.node_groups import NodeGroupSettings
from cluster.settings.sections import MOUNT_PATH, Job
from workloads.kubernetes import Kubernetes
from workloads.manifests import Manifest
from workloads.objects import Object
from workloads.volumes import CLAIM

CONFIG_FOLDER, CONFIG_FILE = "/etc/shardyard", "job.yaml"
METRICS_PORT = 9400
RENDEZVOUS_PORT = 23456
"""The operator's own port (kubeflow.org/v1, pytorch_types.go); its headless services announce it."""
JOB_LABEL = "shardyard.dev/job"
COMPONENT = {"app.kubernetes.io/component": "trainer"}
"""Label of every training pod of every job."""
BUCKET_VARIABLE = "CHECKPOINT_BUCKET"
"""Environment variable for `checkpoint.storage: s3://${CHECKPOINT_BUCKET}/…` in a job's configuration."""
GPU, EFA, HUGE_PAGES = "nvidia.com/gpu", "vpc.amazonaws.com/efa", "hugepages-2Mi"
CORES_FOR_DAEMONS = 4
"""Left on a whole node for the CNI, kube-proxy, CSI and device plugins."""
SHARE_OF_MEMORY = 0.9
EFA_HUGE_PAGES_MIB = 5120
"""What libfabric's EFA provider takes from huge pages on a node (awslabs/awsome-distributed-training's NCCL test)."""
GRACE_SECONDS = 180
"""From SIGTERM to SIGKILL: time to write a checkpoint."""


@dataclass(frozen=True)
class Worker:
    """What one pod asks for, as Kubernetes quantities; None or 0 is not asked for."""

    cpu: str
    memory: str
    gpu: int
    efa: int
    huge_pages: str | None
    shared_memory: str

    def resources(self) -> dict[str, dict[str, str]]:
        """Limits equal requests for what can't be shared. CPU has no limit: throttled input threads
        leave GPUs idle, and nobody else is on the node."""
        fixed = {"memory": self.memory}
        fixed |= {GPU: str(self.gpu)} if self.gpu else {}
        fixed |= {EFA: str(self.efa)} if self.efa else {}
        fixed |= {HUGE_PAGES: self.huge_pages} if self.huge_pages else {}
        return {"requests": {"cpu": self.cpu, **fixed}, "limits": fixed}


def worker(job: Job, pool: NodeGroupSettings) -> Worker:
    """A whole node of the pool, or the same share of everything as of its GPUs; the job overrides each."""
    instance = pool.instance
    asked = job.resources
    gpu = asked.gpus_on(pool)
    share = asked.share_of(pool)
    efa = asked.efa_on(pool)
    memory = int(instance.allocatable_memory_gib * SHARE_OF_MEMORY * share)
    cores = int((instance.allocatable_cpu_millicores / 1000 - CORES_FOR_DAEMONS) * share)
    huge_pages = asked.huge_pages or (f"{EFA_HUGE_PAGES_MIB}Mi" if efa else None)
    return Worker(
        cpu=asked.cpu or str(cores),
        memory=asked.memory or f"{memory}Gi",
        gpu=gpu,
        efa=efa,
        huge_pages=None if huge_pages in (None, "0") else huge_pages,
        shared_memory=asked.shared_memory or f"{memory // 4}Gi",
    )


def rendezvous_id(name: str, *parts: Any) -> str:
    """Unlike that of any other job, and of this one with another configuration or image.

    torchrun keys its rendezvous by it, so agents of an older run can't join a newer one's.
    """
    digest = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
    return f"{name}-{digest[:12]}"


def manifest(
    name: str, namespace: str, job: Job, pool: NodeGroupSettings, image: str, config: str, bucket: str
) -> Manifest:
    """The PyTorchJob. `bucket` is the stack's bucket for checkpoints.

    Workers only, no master: torchrun's c10d rendezvous lives in worker 0, so it starts anew with the
    job and there is no store that could be stale. No metrics in the elastic policy: with them the
    operator makes a CPU autoscaler, which scales GPU jobs wrongly.
    """
    processes = job.processes_per_worker or worker(job, pool).gpu or 1
    template = pod_template(name, job, pool, image, config, bucket)
    identity = rendezvous_id(name, template, job.workers.model_dump(), processes)
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": name, "namespace": namespace, "labels": {JOB_LABEL: name}},
        "spec": {
            "nprocPerNode": str(processes),
            "runPolicy": {"cleanPodPolicy": "None"},  # finished pods keep their logs
            "elasticPolicy": {
                "minReplicas": job.workers.min,
                "maxReplicas": job.workers.max,
                "maxRestarts": job.max_restarts,
                "rdzvBackend": "c10d",
                "rdzvId": identity,
            },
            "pytorchReplicaSpecs": {
                "Worker": {
                    "replicas": job.workers.max,
                    # The trainer's exit status says whether another try can help: 128 and more, yes.
                    "restartPolicy": "ExitCode",
                    "template": template,
                }
            },
        },
    }


def pod_template(
    name: str, job: Job, pool: NodeGroupSettings, image: str, config: str, bucket: str
) -> Manifest:
    """One worker: the trainer's image, its configuration, the file system, and shared memory."""
    asks = worker(job, pool)
    variables = {"NCCL_SOCKET_IFNAME": "^docker,lo,veth", **({"FI_PROVIDER": "efa"} if asks.efa else {})}
    variables[BUCKET_VARIABLE] = bucket
    variables |= job.environment
    return {
        "metadata": {
            "labels": {JOB_LABEL: name, **COMPONENT},
            "annotations": {"shardyard.dev/config-digest": hashlib.sha256(config.encode()).hexdigest()},
        },
        "spec": {
            "serviceAccountName": SERVICE_ACCOUNT,
            "nodeSelector": {POOL_LABEL: job.node_group},
            "tolerations": [{"key": GPU, "operator": "Exists", "effect": "NoSchedule"}, *_tolerations(pool)],
            "terminationGracePeriodSeconds": GRACE_SECONDS,
            # A new Lustre file system belongs to root, and its CSI driver applies no fsGroup.
            "securityContext": {
                "runAsUser": 0,
                "runAsGroup": 0,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": "pytorch",  # the operator looks for this name
                    "image": image,
                    "args": ["-m", "trainer", "--config", f"{CONFIG_FOLDER}/{CONFIG_FILE}"],
                    "env": [{"name": key, "value": value} for key, value in sorted(variables.items())],
                    "ports": [
                        {"name": "pytorchjob-port", "containerPort": RENDEZVOUS_PORT, "protocol": "TCP"},
                        {"name": "metrics", "containerPort": METRICS_PORT, "protocol": "TCP"},
                    ],
                    "resources": asks.resources(),
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        # EFA registers memory with the device, which must not be swapped out.
                        "capabilities": {"drop": ["ALL"], **({"add": ["IPC_LOCK"]} if asks.efa else {})},
                    },
                    "volumeMounts": [
                        {"name": "config", "mountPath": CONFIG_FOLDER, "readOnly": True},
                        {"name": "fsx", "mountPath": MOUNT_PATH},
                        {"name": "shared-memory", "mountPath": "/dev/shm"},
                    ],
                }
            ],
            "volumes": [
                {"name": "config", "configMap": {"name": config_map_name(name)}},
                {"name": "fsx", "persistentVolumeClaim": {"claimName": CLAIM}},
                {"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": asks.shared_memory}},
            ],
        },
    }


def config_map_name(job: str) -> str:
    return f"{job}-config"


def config_map(job: str, namespace: str, config: str) -> Manifest:
    """The job's configuration, as the file that its pods mount."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": config_map_name(job), "namespace": namespace, "labels": {JOB_LABEL: job}},
        "data": {CONFIG_FILE: config},
    }


def _tolerations(pool: NodeGroupSettings) -> list[dict[str, str]]:
    effects = {
        "NO_SCHEDULE": "NoSchedule",
        "PREFER_NO_SCHEDULE": "PreferNoSchedule",
        "NO_EXECUTE": "NoExecute",
    }
    return [{"key": t.key, "operator": "Exists", "effect": effects[t.effect]} for t in pool.taints]


class TrainingJob(pulumi.ComponentResource):
    """A job that is part of the stack. A change of anything in it starts it anew, from its last checkpoint."""

    name: str
    leader: str
    """The pod whose log tells how the job goes."""

    def __init__(
        self,
        name: str,
        job: Job,
        pool: NodeGroupSettings,
        *,
        config: str,
        image: pulumi.Input[str],
        bucket: pulumi.Input[str],
        namespace: str,
        target: Kubernetes,
        opts: pulumi.ResourceOptions,
    ) -> None:
        """`config` is the text of the trainer's own configuration file."""
        super().__init__("shardyard:workloads:TrainingJob", name, None, opts)
        self.name, self.leader = name, f"{name}-worker-0"
        settings = Object(f"{name}-config", config_map(name, namespace, config), target.object(self))
        document = pulumi.Output.all(image, bucket).apply(
            lambda known: manifest(name, namespace, job, pool, known[0], config, known[1])
        )
        Object(
            name,
            {
                "apiVersion": "kubeflow.org/v1",
                "kind": "PyTorchJob",
                "metadata": document["metadata"],
                "spec": document["spec"],
            },
            pulumi.ResourceOptions(
                parent=self,
                provider=target.provider,
                depends_on=[settings],
                # The operator gives running pods no new spec; and two jobs can't have one name.
                replace_on_changes=["spec"],
                delete_before_replace=True,
            ),
        )
        self.register_outputs({"leader": self.leader})


def training_jobs(
    settings: Settings,
    *,
    image: pulumi.Input[str],
    bucket: pulumi.Input[str],
    target: Kubernetes,
    opts: pulumi.ResourceOptions,
) -> dict[str, TrainingJob]:
    """All jobs of the stack file, by name."""
    return {
        name: TrainingJob(
            name,
            job,
            settings.node_groups[job.node_group],
            config=(settings.directory / job.config).read_text(),
            image=image,
            bucket=bucket,
            namespace=settings.training.namespace,
            target=target,
            opts=opts,
        )
        for name, job in settings.training.jobs.items()
    }
