"""The Kubeflow training operator, from its own manifests."""

from __future__ import annotations

import copy

import pulumi

from cluster.labels import POOL_LABEL
from cluster.settings.base import image_reference
from cluster.settings.images import Images
from workloads.kubernetes import Kubernetes
from workloads.manifests import Manifest, load, without_descriptions
from workloads.objects import Object

# Who must be there before whom. The webhook's configuration comes last: from then on the API server
# sends every PyTorchJob to the operator, and refuses those that it can't send.
ORDER = (
    ("Namespace", "CustomResourceDefinition"),
    ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Secret"),
    ("Service", "Deployment"),
    ("ValidatingWebhookConfiguration",),
)
FILLED_IN = {"Secret": ["data"]}
"""What the operator itself writes into its objects (its webhook's certificate) is no drift."""
FLAGS = ("--enable-scheme=pytorchjob",)
"""One kind of job: its CRD is the only one there."""


class TrainingOperator(pulumi.ComponentResource):
    """CRD, RBAC, Deployment and webhook. Once this is up, a PyTorchJob is admitted and run."""

    def __init__(self, name: str, images: Images, target: Kubernetes, opts: pulumi.ResourceOptions) -> None:
        super().__init__("shardyard:workloads:TrainingOperator", name, None, opts)
        documents = manifests(image_reference(images.training_operator))
        earlier: list[pulumi.Resource] = []
        for kinds in ORDER:
            earlier = [
                Object(
                    f"{name}-{document['kind'].lower()}-{document['metadata']['name']}",
                    document,
                    pulumi.ResourceOptions.merge(
                        target.object(self, depends_on=earlier),
                        pulumi.ResourceOptions(ignore_changes=FILLED_IN.get(document["kind"])),
                    ),
                )
                for document in documents
                if document["kind"] in kinds
            ]
        self.register_outputs({})


def manifests(image: str) -> list[Manifest]:
    """The vendor's objects, with this image, on the system pool."""
    documents = load("training-operator/pytorchjobs-crd.yaml") + load("training-operator/operator.yaml")
    return [_adapted(document, image) for document in documents]


def _adapted(document: Manifest, image: str) -> Manifest:
    if document["kind"] == "CustomResourceDefinition":
        adapted: Manifest = without_descriptions(document)
        return adapted
    document = copy.deepcopy(document)
    if document["kind"] == "Deployment":
        pod = document["spec"]["template"]["spec"]
        pod["nodeSelector"] = {POOL_LABEL: "system"}
        (container,) = pod["containers"]
        container["image"] = image
        container["args"] = list(FLAGS)
        container["resources"] = {
            "requests": {"cpu": "50m", "memory": "128Mi"},
            "limits": {"memory": "512Mi"},
        }
    return document
