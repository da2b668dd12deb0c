"""What pods of the training namespace may not do: good and bad specs, asked of a real API server by every persona."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import urllib3

from cluster.identity import CI, TRAINERS, VIEWERS
from cluster.settings import load_stack_file
from cluster.settings.sections import DataPreparationJob
from lab import processes
from lab.nodes.cluster_files import ClusterFiles, loopback
from lab.nodes.components import control_plane
from lab.settings import Lab
from tests.ports import free_port_base
from tests.waiting import eventually
from workloads import access, pod_policy, preparation, training_job, training_operator

NAMESPACE = "training"
STACKS = Path(__file__).parents[2] / "stacks"
IMAGE = f"registry.example.com/trainer@sha256:{'a' * 64}"
OPERATOR = "system:serviceaccount:kubeflow:training-operator"
Pod = dict[str, Any]
"""A pod's `metadata` and `spec`, as a template has them."""


def good_pod() -> Pod:
    container = {
        "name": "pytorch",
        "image": IMAGE,
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"add": ["IPC_LOCK"], "drop": ["ALL"]},
        },
    }
    return {"metadata": {}, "spec": {"containers": [container], "restartPolicy": "Never"}}


def container(**security: Any) -> Callable[[Pod], None]:
    """Changes the last container that there is; None takes a key away."""

    def change(pod: Pod) -> None:
        context = target(pod)["securityContext"]
        context.update(security)
        for key in [key for key, value in context.items() if value is None]:
            del context[key]

    return change


def container_part(**parts: Any) -> Callable[[Pod], None]:
    return lambda pod: target(pod).update(parts)


def target(pod: Pod) -> dict[str, Any]:
    spec = pod["spec"]
    last: dict[str, Any] = (spec.get("initContainers") or spec["containers"])[-1]
    return last


def spec(**fields: Any) -> Callable[[Pod], None]:
    return lambda pod: pod["spec"].update(fields)


def volume(**source: Any) -> Callable[[Pod], None]:
    return spec(volumes=[{"name": "v", **source}])


PROBE = {"httpGet": {"host": "169.254.169.254", "port": 80}}
# name: (what it does to a good pod, the field that the refusal must name)
BAD_CONTAINERS: dict[str, tuple[Callable[[Pod], None], str]] = {
    "privileged": (
        container(privileged=True, allowPrivilegeEscalation=None),
        "containers[*].securityContext.privileged",
    ),
    "escalation": (container(allowPrivilegeEscalation=True), "securityContext.allowPrivilegeEscalation"),
    "escalation by default": (
        container(allowPrivilegeEscalation=None),
        "securityContext.allowPrivilegeEscalation: set it to false",
    ),
    "a capability": (container(capabilities={"add": ["NET_ADMIN"]}), "securityContext.capabilities.add"),
    "a capability beside a good one": (
        container(capabilities={"add": ["IPC_LOCK", "SYS_PTRACE"]}),
        "securityContext.capabilities.add",
    ),
    "all capabilities": (container(capabilities={"add": ["ALL"]}), "securityContext.capabilities.add"),
    "a host port": (
        container_part(ports=[{"containerPort": 80, "hostPort": 80}]),
        "containers[*].ports[*].hostPort",
    ),
    "seccomp": (
        container(seccompProfile={"type": "Unconfined"}),
        "containers[*].securityContext.seccompProfile.type",
    ),
    "selinux": (
        container(seLinuxOptions={"type": "spc_t"}),
        "containers[*].securityContext.seLinuxOptions",
    ),
    "selinux user": (
        container(seLinuxOptions={"user": "system_u"}),
        "containers[*].securityContext.seLinuxOptions",
    ),
    "a hook that calls elsewhere": (
        container_part(lifecycle={"preStop": PROBE}),
        "lifecycle hooks, httpGet.host and tcpSocket.host",
    ),
}
BAD_MAIN_CONTAINERS = {
    "a probe that calls elsewhere": (
        container_part(livenessProbe=PROBE),
        "probes and lifecycle hooks, httpGet.host",
    ),
    "a probe by tcp": (
        container_part(readinessProbe={"tcpSocket": {"host": "127.0.0.1", "port": 10250}}),
        "tcpSocket.host",
    ),
}
BAD_SPECS: dict[str, tuple[Callable[[Pod], None], str]] = {
    "host network": (spec(hostNetwork=True), "spec.hostNetwork: leave it out"),
    "host processes": (spec(hostPID=True), "spec.hostPID: leave it out"),
    "host ipc": (spec(hostIPC=True), "spec.hostIPC: leave it out; mount an emptyDir"),
    "host path": (volume(hostPath={"path": "/"}), "spec.volumes[*]"),
    "nfs": (volume(nfs={"server": "10.0.0.1", "path": "/"}), "spec.volumes[*]"),
    "inline csi": (volume(csi={"driver": "any.example.com"}), "spec.volumes[*]"),
    "a bad volume beside a good one": (
        spec(volumes=[{"name": "a", "emptyDir": {}}, {"name": "b", "hostPath": {"path": "/dev"}}]),
        "spec.volumes[*]",
    ),
    "a sysctl": (
        spec(securityContext={"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}),
        "spec.securityContext.sysctls",
    ),
    "pod seccomp": (
        spec(securityContext={"seccompProfile": {"type": "Unconfined"}}),
        "spec.securityContext.seccompProfile.type",
    ),
    "pod selinux": (
        spec(securityContext={"seLinuxOptions": {"role": "sysadm_r"}}),
        "spec.securityContext.seLinuxOptions",
    ),
    "another account": (spec(serviceAccountName="other"), "spec.serviceAccountName: only default, trainer"),
    "another account by its old name": (spec(serviceAccount="other"), "spec.serviceAccountName"),
}


def unmasked(pod: Pod) -> None:
    """In a user namespace, without which the API server itself refuses it."""
    pod["spec"]["hostUsers"] = False
    container(procMount="Unmasked")(pod)


def in_init_container(change: Callable[[Pod], None]) -> Callable[[Pod], None]:
    def changed(pod: Pod) -> None:
        pod["spec"]["initContainers"] = [{**copy.deepcopy(pod["spec"]["containers"][0]), "name": "first"}]
        change(pod)

    return changed


def second(change: Callable[[Pod], None]) -> Callable[[Pod], None]:
    """In a container that is not the first."""

    def changed(pod: Pod) -> None:
        pod["spec"]["containers"].append({**copy.deepcopy(pod["spec"]["containers"][0]), "name": "second"})
        change(pod)

    return changed


BAD: dict[str, tuple[Callable[[Pod], None], str]] = {
    **BAD_CONTAINERS,
    **BAD_MAIN_CONTAINERS,
    **{
        f"{name}, second container": (second(change), field)
        for name, (change, field) in BAD_CONTAINERS.items()
    },
    **{
        f"{name}, init container": (in_init_container(change), field)
        for name, (change, field) in BAD_CONTAINERS.items()
        if "hook" not in name  # init containers have none
    },
    **BAD_SPECS,
    "unmasked /proc in a user namespace": (unmasked, "containers[*].securityContext.procMount"),
}
UNCONFINED = container(appArmorProfile={"type": "Unconfined"})
ANNOTATED = {"container.apparmor.security.beta.kubernetes.io/pytorch": "unconfined"}
# The CRD of the operator doesn't know AppArmor's fields, only its old annotation, which the API server translates.
ONLY_IN_PODS: dict[str, tuple[Callable[[Pod], None], str]] = {
    "apparmor": (UNCONFINED, "containers[*].securityContext.appArmorProfile.type"),
    "apparmor, second container": (second(UNCONFINED), "containers[*].securityContext.appArmorProfile.type"),
    "apparmor, init container": (
        in_init_container(UNCONFINED),
        "containers[*].securityContext.appArmorProfile.type",
    ),
    "apparmor, pod": (
        spec(securityContext={"appArmorProfile": {"type": "Unconfined"}}),
        "spec.securityContext.appArmorProfile.type",
    ),
    "apparmor by annotation": (
        lambda pod: pod["metadata"].update(annotations=ANNOTATED),
        "containers[*].securityContext.appArmorProfile.type",
    ),
}
ONLY_IN_JOBS: dict[str, tuple[Callable[[Pod], None], str]] = {
    "apparmor by annotation": (
        lambda pod: pod["metadata"].update(annotations=ANNOTATED),
        "metadata.annotations[container.apparmor.security.beta.kubernetes.io/*]",
    ),
    # The API server would refuse the pod for another reason first.
    "windows, pod": (
        spec(securityContext={"windowsOptions": {"hostProcess": True}}),
        "windowsOptions.hostProcess",
    ),
    "windows, container": (container(windowsOptions={"hostProcess": True}), "windowsOptions.hostProcess"),
    "unmasked /proc": (container(procMount="Unmasked"), "containers[*].securityContext.procMount"),
}


def job(template: Pod, role: str = "Worker") -> dict[str, Any]:
    replica = {"replicas": 1, "restartPolicy": "ExitCode", "template": template}
    good = {"replicas": 1, "restartPolicy": "ExitCode", "template": good_pod()}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "tried", "namespace": NAMESPACE},
        "spec": {"pytorchReplicaSpecs": {"Master": good, role: replica}},
    }


def pod(template: Pod, namespace: str = NAMESPACE) -> dict[str, Any]:
    metadata = {**template["metadata"], "name": "tried", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


def spoilt(change: Callable[[Pod], None]) -> Pod:
    made = good_pod()
    change(made)
    return made


def path_of(document: dict[str, Any]) -> str:
    version, metadata, kind = document["apiVersion"], document["metadata"], document["kind"].lower()
    plural = f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}s"
    inside = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
    return f"/{'apis' if '/' in version else 'api'}/{version}{inside}/{plural}/{metadata['name']}"


@dataclass
class Server:
    """An API server without nodes, as the program leaves it. Everything is tried as a dry run."""

    plane: control_plane.ControlPlane
    pool: urllib3.PoolManager

    def ask(
        self, method: str, path: str, body: Any, user: str, *groups: str, content: str = "application/json"
    ) -> tuple[int, str]:
        headers = urllib3.HTTPHeaderDict({"Content-Type": content, "Impersonate-User": user})
        for group in (*groups, "system:authenticated"):
            headers.add("Impersonate-Group", group)
        answer = self.pool.request(
            method, self.plane.client.url + path, body=json.dumps(body), headers=headers, timeout=60
        )
        said = json.loads(answer.data)
        return answer.status, str(said.get("message", ""))

    def create(self, document: dict[str, Any], user: str, *groups: str) -> tuple[int, str]:
        path = path_of(document).rpartition("/")[0]
        return self.ask("POST", f"{path}?dryRun=All&fieldValidation=Strict", document, user, *groups)

    def apply(self, document: dict[str, Any]) -> None:
        self.plane.client.apply(path_of(document), document)

    def may(self, group: str, verb: str, api: str, resource: str, namespace: str = NAMESPACE) -> bool:
        resource, _, part = resource.partition("/")
        attributes = {
            "verb": verb,
            "group": api,
            "resource": resource,
            "subresource": part,
            "namespace": namespace,
        }
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": "somebody",
                "groups": [group, "system:authenticated"],
                "resourceAttributes": attributes,
            },
        }
        path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        return bool(self.plane.client.call("POST", path, review)["status"]["allowed"])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    state = tmp_path_factory.mktemp("api")
    lab = Lab(name="test-policy", cache=Lab.from_environment().cache, state=state, port_base=free_port_base())
    files = ClusterFiles(lab, "main", 0, loopback())
    try:
        plane = control_plane.start(files, "http://127.0.0.1:9/nobody")
        pair = files.pair("admin")
        pool = urllib3.PoolManager(
            ca_certs=str(plane.authority.certificate), cert_file=str(pair.certificate), key_file=str(pair.key)
        )
        found = Server(plane, pool)
        for document in training_operator.manifests(IMAGE):
            if document["kind"] in (
                "Namespace",
                "CustomResourceDefinition",
                "ClusterRole",
                "ClusterRoleBinding",
            ):
                found.apply(document)
        for document in access.manifests(NAMESPACE):
            found.apply(document)
        for name in ("other", "default"):
            found.apply(
                {
                    "apiVersion": "v1",
                    "kind": "ServiceAccount",
                    "metadata": {"name": name, "namespace": NAMESPACE},
                }
            )
        old = job(spoilt(spec(hostPID=True)))
        old["metadata"] |= {"name": "old", "finalizers": ["example.com/held"]}
        eventually(lambda: _done(lambda: found.apply(old)), 60)
        for document in pod_policy.manifests(NAMESPACE):
            found.apply(document)
        for wrong in (pod(spoilt(spec(hostPID=True))), job(spoilt(spec(hostPID=True)))):
            eventually(lambda wrong=wrong: found.create(wrong, "admin", "system:masters")[0] == 403, 60)
        yield found
    finally:
        control_plane.stop(files)
        processes.stop_all(lab, grace=2)


def _done(action: Callable[[], None]) -> bool:
    try:
        action()
    except Exception:  # the API server takes a moment to serve a new kind
        return False
    return True


SUBMITTERS = {"trainer": TRAINERS, "ci": CI, "admin": "system:masters"}


@pytest.mark.lab
@pytest.mark.parametrize("persona", SUBMITTERS)
def test_a_good_job_may_be_submitted(server: Server, persona: str) -> None:
    assert server.create(job(good_pod()), persona, SUBMITTERS[persona]) == (201, "")


@pytest.mark.lab
@pytest.mark.parametrize("case", [*BAD, *ONLY_IN_JOBS])
def test_a_bad_job_is_refused_whoever_submits_it(server: Server, case: str) -> None:
    change, field = {**BAD, **ONLY_IN_JOBS}[case]
    for persona, group in SUBMITTERS.items():
        for role in ("Worker", "Master"):
            status, said = server.create(job(spoilt(change), role), persona, group)
            assert (status, field in said) == (403, True), f"{persona}, {role}: {status} {said}"


@pytest.mark.lab
@pytest.mark.parametrize("case", [*BAD, *ONLY_IN_PODS])
def test_a_bad_pod_is_refused_whoever_makes_it(server: Server, case: str) -> None:
    change, field = {**BAD, **ONLY_IN_PODS}[case]
    for user, groups in ((OPERATOR, ()), ("admin", ("system:masters",))):
        status, said = server.create(pod(spoilt(change)), user, *groups)
        assert (status, field in said) == (403, True), f"{user}: {status} {said}"


@pytest.mark.lab
def test_a_refusal_names_the_container_the_field_and_the_fix(server: Server) -> None:
    change = second(container(capabilities={"add": ["SYS_ADMIN"]}, allowPrivilegeEscalation=None))
    _, said = server.create(job(spoilt(change)), "ci", CI)
    assert "container second: " in said
    said_of = server.create(job(spoilt(second(container(capabilities={"add": ["NET_RAW"]})))), "ci", CI)[1]
    assert said_of.endswith(
        "container second: containers[*].securityContext.capabilities.add: only "
        + ", ".join(pod_policy.CAPABILITIES)
    )


@pytest.mark.lab
@pytest.mark.parametrize("stack", ["local", "p4de", "p5"])
def test_our_own_jobs_and_their_pods_are_admitted(server: Server, stack: str) -> None:
    settings = load_stack_file(STACKS / f"Pulumi.{stack}.yaml")
    assert settings.training.jobs
    for name, one in settings.training.jobs.items():
        config = (STACKS / one.config).read_text()
        made = training_job.manifest(
            name, NAMESPACE, one, settings.node_groups[one.node_group], IMAGE, config, "bucket"
        )
        assert server.create(made, "trainer", TRAINERS) == (201, "")
        template = made["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]
        assert server.create(pod(template), OPERATOR) == (201, "")


@pytest.mark.lab
def test_pods_of_preparations_and_the_operator_s_own_container_are_admitted(server: Server) -> None:
    asked = DataPreparationJob(source="/fsx/data/texts", output="/fsx/data/corpus", parts=2)
    template = preparation.manifest("corpus", NAMESPACE, asked, IMAGE)["spec"]["template"]
    assert (
        server.create(pod(template), "system:serviceaccount:kube-system:job-controller", "system:masters")[0]
        == 201
    )
    made = good_pod()
    made["spec"]["initContainers"] = [{"name": pod_policy.OPERATORS_CONTAINER, "image": IMAGE}]
    assert server.create(pod(made), OPERATOR) == (201, "")


@pytest.mark.lab
@pytest.mark.parametrize("kind", pod_policy.VOLUMES)
def test_every_volume_of_the_list_is_admitted(server: Server, kind: str) -> None:
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    sources: dict[str, Any] = {
        "configMap": {"name": "x"},
        "downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]},
        "emptyDir": {"medium": "Memory"},
        "ephemeral": {"volumeClaimTemplate": {"spec": claim}},
        "persistentVolumeClaim": {"claimName": "fsx"},
        "projected": {"sources": [{"configMap": {"name": "x"}}]},
        "secret": {"secretName": "x"},
    }
    made = spoilt(volume(**{kind: sources[kind]}))
    assert server.create(job(made), "trainer", TRAINERS) == (201, "")
    assert server.create(pod(made), OPERATOR) == (201, "")


@pytest.mark.lab
@pytest.mark.parametrize("case", ["privileged", "a capability", "escalation by default"])
def test_containers_added_for_debugging_are_held_to_the_rules(server: Server, case: str) -> None:
    debugged = pod(good_pod())
    debugged["metadata"]["name"] = "debugged"
    server.apply(debugged)
    added = good_pod()
    change, field = BAD_CONTAINERS[case]
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/debugged/ephemeralcontainers?dryRun=All"

    def add(template: Pod) -> tuple[int, str]:
        body = {"spec": {"ephemeralContainers": [{**template["spec"]["containers"][0], "name": "debug"}]}}
        content = "application/strategic-merge-patch+json"
        return server.ask("PATCH", path, body, "admin", "system:masters", content=content)

    assert add(added)[0] == 200
    change(added)
    status, said = add(added)
    assert (status, field in said) == (403, True), f"{status} {said}"


@pytest.mark.lab
def test_pods_elsewhere_are_left_alone(server: Server) -> None:
    server.apply(
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": "default", "namespace": "kube-system"},
        }
    )
    plugin = pod(spoilt(volume(hostPath={"path": "/var/lib/kubelet/device-plugins"})), "kube-system")
    assert server.create(plugin, "admin", "system:masters") == (201, "")


@pytest.mark.lab
def test_a_job_from_before_the_policy_can_still_go(server: Server) -> None:
    client, path = server.plane.client, f"/apis/kubeflow.org/v1/namespaces/{NAMESPACE}/pytorchjobs/old"
    client.delete(path)
    assert client.get(path)["metadata"]["deletionTimestamp"]
    client.merge(path, {"metadata": {"finalizers": []}})
    assert client.find(path) is None


@pytest.mark.lab
@pytest.mark.parametrize("policy", [pod_policy.POLICY, pod_policy.JOB_POLICY])
def test_the_rules_fit_the_schema(server: Server, policy: str) -> None:
    """The controller manager checks each expression's types against what it is applied to."""
    path = f"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/{policy}"
    eventually(lambda: "typeChecking" in server.plane.client.get(path).get("status", {}), 60)
    assert server.plane.client.get(path)["status"]["typeChecking"] == {}


WAYS_AROUND = [
    *(
        ("create", "", kind)
        for kind in ("pods", "pods/ephemeralcontainers", "serviceaccounts", "serviceaccounts/token")
    ),
    *(("update", "", kind) for kind in ("pods", "pods/ephemeralcontainers", "namespaces", "nodes")),
    ("patch", "", "pods/ephemeralcontainers"),
    ("get", "", "secrets"),
    ("create", "", "persistentvolumes"),
    ("impersonate", "", "users"),
    ("impersonate", "", "serviceaccounts"),
    ("create", "", "nodes/proxy"),
    *(("create", "apps", kind) for kind in ("daemonsets", "deployments", "statefulsets", "replicasets")),
    *(("create", "batch", kind) for kind in ("jobs", "cronjobs")),
    *(
        (verb, "rbac.authorization.k8s.io", kind)
        for kind in ("roles", "rolebindings", "clusterroles", "clusterrolebindings")
        for verb in ("create", "update", "patch", "bind", "escalate")
    ),
    *(
        (verb, "admissionregistration.k8s.io", kind)
        for kind in (
            "validatingadmissionpolicies",
            "validatingadmissionpolicybindings",
            "validatingwebhookconfigurations",
        )
        for verb in ("create", "update", "patch", "delete")
    ),
]


@pytest.mark.lab
@pytest.mark.parametrize("group", [TRAINERS, VIEWERS, CI])
def test_no_persona_but_admin_has_a_way_around(server: Server, group: str) -> None:
    assert [way for way in WAYS_AROUND if server.may(group, *way)] == []
    assert not server.may(group, "create", "kubeflow.org", "pytorchjobs", "kube-system")
    assert server.may(group, "create", "kubeflow.org", "pytorchjobs") == (group != VIEWERS)
    assert all(server.may("system:masters", *way) for way in WAYS_AROUND)


def test_personas_rules_name_everything() -> None:
    """A * would give what nobody thought of."""
    for group, rules in access.RULES.items():
        for one in rules:
            assert "*" not in [*one["apiGroups"], *one["resources"], *one["verbs"]], group


def test_policies_refuse_when_they_can_not_be_evaluated() -> None:
    policies = [one for one in pod_policy.manifests("x") if one["kind"] == "ValidatingAdmissionPolicy"]
    assert [one["spec"]["failurePolicy"] for one in policies] == ["Fail", "Fail"]
    bindings = [one for one in pod_policy.manifests("x") if one["kind"] == "ValidatingAdmissionPolicyBinding"]
    assert [one["spec"]["validationActions"] for one in bindings] == [["Deny"], ["Deny"]]


@pytest.mark.parametrize("rule", pod_policy.RULES, ids=lambda rule: rule.field)
def test_messages_are_of_one_line_and_say_what_to_do(rule: pod_policy.Rule) -> None:
    """More than one line the API server takes for an error."""
    assert rule.fix
    assert "\n" not in rule.message
    assert len(rule.message) < 1000
