"""Preparation of data on the cluster: an Indexed Job whose pods share nothing but the folder they fill."""

from __future__ import annotations

from functools import partial

import pulumi

from cluster.identity import SERVICE_ACCOUNT
from cluster.settings import Settings
from cluster.settings.sections import MOUNT_PATH, DataPreparationJob
from workloads.kubernetes import Kubernetes
from workloads.manifests import Manifest
from workloads.objects import Object
from workloads.volumes import CLAIM

WRONG = 2
"""The trainer's exit status for a source or an option that is wrong: another try can't help."""
RETRIES = 6
"""Of one part. Each try goes on where the one before stopped."""


def manifest(name: str, namespace: str, preparation: DataPreparationJob, image: str) -> Manifest:
    """The Job. Each pod does the part that its completion index names, on the system pool's nodes; the one that finds
    all others done writes the index of the data."""
    arguments = [
        f"--source={preparation.source}",
        f"--output={preparation.output}",
        f"--tokenizer={preparation.tokenizer}",
        f"--held-out={preparation.held_out}",
        f"--parts={preparation.parts}",
        f"--workers={preparation.workers}",
        *preparation.options,
    ]
    asks = {"memory": preparation.memory}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": namespace,
            # Creating the Job is what the engine waits for, not hours of work.
            "annotations": {"pulumi.com/skipAwait": "true"},
        },
        "spec": {
            "completionMode": "Indexed",
            "completions": preparation.parts,
            "parallelism": min(preparation.parallelism or preparation.parts, preparation.parts),
            "backoffLimitPerIndex": RETRIES,
            "podFailurePolicy": {
                "rules": [
                    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
                    {
                        "action": "FailJob",
                        "onExitCodes": {"containerName": "prepare", "operator": "In", "values": [WRONG]},
                    },
                ]
            },
            "template": {
                "metadata": {"labels": {"app.kubernetes.io/component": "preparation"}},
                "spec": {
                    "restartPolicy": "Never",  # what counting failures by index asks for
                    "serviceAccountName": SERVICE_ACCOUNT,
                    # A new Lustre file system belongs to root, and its CSI driver applies no fsGroup.
                    "securityContext": {
                        "runAsUser": 0,
                        "runAsGroup": 0,
                        "seccompProfile": {"type": "RuntimeDefault"},
                    },
                    "containers": [
                        {
                            "name": "prepare",
                            "image": image,
                            "command": ["python3", "-m", "trainer.data.prepare"],
                            "args": arguments,
                            "resources": {
                                "requests": {"cpu": str(preparation.workers), **asks},
                                "limits": asks,
                            },
                            "securityContext": {
                                "allowPrivilegeEscalation": False,
                                "capabilities": {"drop": ["ALL"]},
                            },
                            "volumeMounts": [{"name": "fsx", "mountPath": MOUNT_PATH}],
                        }
                    ],
                    "volumes": [{"name": "fsx", "persistentVolumeClaim": {"claimName": CLAIM}}],
                },
            },
        },
    }


class DataPreparation(pulumi.ComponentResource):
    """A preparation that is part of the stack. A change of anything in it starts it anew; what is done stays done."""

    def __init__(
        self,
        name: str,
        preparation: DataPreparationJob,
        *,
        image: pulumi.Input[str],
        namespace: str,
        target: Kubernetes,
        opts: pulumi.ResourceOptions,
    ) -> None:
        super().__init__("shardyard:workloads:DataPreparation", name, None, opts)
        document = pulumi.Output.from_input(image).apply(partial(manifest, name, namespace, preparation))
        Object(
            name,
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "metadata": document["metadata"],
                "spec": document["spec"],
            },
            pulumi.ResourceOptions(
                parent=self,
                # Deleted by itself, not with the cluster: its pods must let go of the file system, which goes first.
                provider=target.provider,
                # A Job's pods can't be changed; and two can't have one name.
                replace_on_changes=["spec"],
                delete_before_replace=True,
            ),
        )
        self.register_outputs({})


def preparations(
    settings: Settings, *, image: pulumi.Input[str], target: Kubernetes, opts: pulumi.ResourceOptions
) -> dict[str, DataPreparation]:
    """All preparations of the stack file, by name."""
    return {
        name: DataPreparation(
            name, preparation, image=image, namespace=settings.training.namespace, target=target, opts=opts
        )
        for name, preparation in settings.training.data_preparation_jobs.items()
    }
