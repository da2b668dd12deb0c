"""What pods of the training namespace may not do, whoever makes them: nothing that makes them root on their node.

Who may submit a PyTorchJob chooses its pod template, and the operator makes the pods. So the same rules are in two
ValidatingAdmissionPolicies: one for pods, which nothing gets past, and one for PyTorchJobs, so that the person who
submits a job sees the refusal at once, and not in the operator's events.

The rules are Kubernetes' Pod Security Standards (https://kubernetes.io/docs/concepts/security/pod-security-standards/),
profile Baseline, with what training needs besides (IPC_LOCK), and with Restricted's rules where training needs no more
than they allow. Pod Security admission itself knows no exception for one capability. `hostUsers: false` earns none:
Pod Security lets pods in a user namespace unmask /proc; here no pod needs that.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import pulumi

from cluster.identity import SERVICE_ACCOUNT
from workloads.kubernetes import Kubernetes
from workloads.manifests import Manifest
from workloads.objects import Object

POLICY = "shardyard-training-pods"
JOB_POLICY = "shardyard-training-jobs"
CAPABILITIES = (
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
    # Not Baseline's: EFA registers memory with the device, which must not be swapped out.
    "IPC_LOCK",
)
"""What a container may add: what a container runtime gives anyway, and one more."""
VOLUMES = (
    "configMap",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
)
SERVICE_ACCOUNTS = ("default", SERVICE_ACCOUNT)
SYSCTLS = (
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_wmem",
)
"""Those that are a pod's own and can't starve its node."""
SELINUX_TYPES = ("", "container_t", "container_init_t", "container_kvm_t", "container_engine_t")
PROFILES = ("RuntimeDefault", "Localhost")
OPERATORS_CONTAINER = "init-pytorch"
"""The init container that the operator adds to workers of a job with a master; it has no security context."""


@dataclass(frozen=True)
class Rule:
    """`holds` is a CEL expression of one pod `p` (with `metadata` and `spec`) or of one container `c`."""

    holds: str
    field: str
    """What is checked, as a path in the pod's (or the container's) manifest."""
    fix: str

    @property
    def of_containers(self) -> bool:
        return self.field.startswith("containers")

    @property
    def message(self) -> str:
        return f"{self.field}: {self.fix}"

    def validation(self) -> Manifest:
        """One entry of a policy's `validations`. A container's message begins with the containers' names."""
        if not self.of_containers:
            return {
                "expression": f"variables.pods.all(p, {self.holds})",
                "message": self.message,
                "reason": "Forbidden",
            }
        wrong = f"variables.containers.filter(c, !({self.holds})).map(c, c.name).join(', ')"
        return {
            "expression": f"variables.containers.all(c, {self.holds})",
            "messageExpression": f"'container ' + {wrong} + {_text(': ' + self.message)}",
            "message": self.message,
            "reason": "Forbidden",
        }


def _text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _list(values: Sequence[str]) -> str:
    return json.dumps(list(values))


def _words(values: Sequence[str]) -> str:
    return ", ".join(value for value in values if value)


_IN_CONTAINER, _IN_POD = "containers[*].securityContext", "spec.securityContext"
RULES = (
    # Baseline, "Privileged Containers": all devices of the node, all capabilities, no seccomp.
    Rule(
        "!c.?securityContext.?privileged.orValue(false)",
        f"{_IN_CONTAINER}.privileged",
        "leave it out; GPUs and EFA come through resources.limits",
    ),
    # Restricted, "Privilege Escalation": setuid programs gain nothing.
    Rule(
        f"c.name == '{OPERATORS_CONTAINER}' || !c.?securityContext.?allowPrivilegeEscalation.orValue(true)",
        f"{_IN_CONTAINER}.allowPrivilegeEscalation",
        "set it to false",
    ),
    # Baseline, "Capabilities": SYS_ADMIN, SYS_PTRACE, NET_ADMIN and the like reach beyond the container.
    Rule(
        f"c.?securityContext.?capabilities.?add.orValue([]).all(one, one in {_list(CAPABILITIES)})",
        f"{_IN_CONTAINER}.capabilities.add",
        f"only {_words(CAPABILITIES)}",
    ),
    # Baseline, "Host Namespaces": the node's loopback and metadata service, its processes, its shared memory.
    *(
        Rule(f"!p.spec.?{field}.orValue(false)", f"spec.{field}", f"leave it out; {instead}")
        for field, instead in (
            ("hostNetwork", "NCCL and EFA work on the pod's own network"),
            ("hostPID", "a pod sees its own processes only"),
            ("hostIPC", "mount an emptyDir with medium Memory on /dev/shm for shared memory"),
        )
    ),
    # Baseline, "HostPath Volumes", and Restricted, "Volume Types": the node's files, and drivers that mount them.
    Rule(
        f"p.spec.?volumes.orValue([]).all(v, {' || '.join(f'has(v.{kind})' for kind in VOLUMES)})",
        "spec.volumes[*]",
        f"only {_words(VOLUMES)}; not hostPath: files that last are in the file system, a persistentVolumeClaim",
    ),
    # Baseline, "Host Ports": listening in the place of the node's own services.
    Rule(
        "c.?ports.orValue([]).all(one, one.?hostPort.orValue(0) == 0)",
        "containers[*].ports[*].hostPort",
        "leave it out; pods reach each other at containerPort",
    ),
    # Baseline, "Host Probes / Lifecycle Hooks": the kubelet calls from the node's own network.
    Rule(
        "[?c.?livenessProbe, ?c.?readinessProbe, ?c.?startupProbe, ?c.?lifecycle.?postStart, ?c.?lifecycle.?preStop]"
        ".all(one, one.?httpGet.?host.orValue('') == '' && one.?tcpSocket.?host.orValue('') == '')",
        "containers[*] probes and lifecycle hooks, httpGet.host and tcpSocket.host",
        "leave it out; without it the kubelet asks the pod itself",
    ),
    # Baseline, "/proc Mount Type": an unmasked /proc shows and changes the node's kernel settings.
    Rule(
        "c.?securityContext.?procMount.orValue('Default') == 'Default'",
        f"{_IN_CONTAINER}.procMount",
        "leave it out",
    ),
    # Baseline, "Sysctls": most are the node's, not the pod's.
    Rule(
        f"p.spec.?securityContext.?sysctls.orValue([]).all(one, one.name in {_list(SYSCTLS)})",
        f"{_IN_POD}.sysctls",
        f"only {_words(SYSCTLS)}; others belong in the node's user data",
    ),
    # Baseline, "HostProcess": a Windows container that runs on the node itself.
    Rule(
        "!p.spec.?securityContext.?windowsOptions.?hostProcess.orValue(false)",
        f"{_IN_POD}.windowsOptions.hostProcess",
        "leave it out",
    ),
    Rule(
        "!c.?securityContext.?windowsOptions.?hostProcess.orValue(false)",
        f"{_IN_CONTAINER}.windowsOptions.hostProcess",
        "leave it out",
    ),
    # Baseline, "Seccomp", "AppArmor" and "SELinux": what keeps a container from the kernel's rarer doors.
    *(
        Rule(
            f"{of}.?securityContext.?{kind}.?type.orValue('RuntimeDefault') in {_list(PROFILES)}",
            f"{where}.{kind}.type",
            f"only {_words(PROFILES)}",
        )
        for kind in ("seccompProfile", "appArmorProfile")
        for of, where in (("p.spec", _IN_POD), ("c", _IN_CONTAINER))
    ),
    Rule(
        "p.?metadata.?annotations.orValue({}).all(key, "
        "!key.startsWith('container.apparmor.security.beta.kubernetes.io/')"
        " || p.metadata.annotations[key] == 'runtime/default' || p.metadata.annotations[key].startsWith('localhost/'))",
        "metadata.annotations[container.apparmor.security.beta.kubernetes.io/*]",
        "only runtime/default or localhost/*",
    ),
    *(
        Rule(
            f"{of}.?securityContext.?seLinuxOptions.?type.orValue('') in {_list(SELINUX_TYPES)}"
            f" && {of}.?securityContext.?seLinuxOptions.?user.orValue('') == ''"
            f" && {of}.?securityContext.?seLinuxOptions.?role.orValue('') == ''",
            f"{where}.seLinuxOptions",
            f"only a type, one of {_words(SELINUX_TYPES)}; no user, no role",
        )
        for of, where in (("p.spec", _IN_POD), ("c", _IN_CONTAINER))
    ),
    # Not of the standards: an account's token is its permissions, and accounts made later may have more.
    Rule(
        f"p.spec.?serviceAccountName.orValue('') in {_list(['', *SERVICE_ACCOUNTS])}"
        f" && p.spec.?serviceAccount.orValue('') in {_list(['', *SERVICE_ACCOUNTS])}",
        "spec.serviceAccountName",
        f"only {_words(SERVICE_ACCOUNTS)}",
    ),
)
_PODS = "[object]"
_PODS_OF_JOB = (
    "[?object.spec.?pytorchReplicaSpecs.?Master.?template, ?object.spec.?pytorchReplicaSpecs.?Worker.?template]"
    ".filter(one, has(one.spec))"
)
_BY_POD = (
    "variables.pods.map(p, p.spec.containers + p.spec.?initContainers.orValue([])"
    " + p.spec.?ephemeralContainers.orValue([]))"
)
# One pod, or a job's master and worker; CEL as Kubernetes 1.34 has it flattens no list of lists.
_CONTAINERS = (
    "size(variables.byPod) == 0 ? [] : size(variables.byPod) == 1 ? variables.byPod[0]"
    " : variables.byPod[0] + variables.byPod[1]"
)


class PodPolicy(pulumi.ComponentResource):
    """Both policies, bound to the training namespace."""

    def __init__(self, name: str, namespace: str, target: Kubernetes, opts: pulumi.ResourceOptions) -> None:
        super().__init__("shardyard:workloads:PodPolicy", name, None, opts)
        earlier: list[pulumi.Resource] = []
        for document in manifests(namespace):
            label = f"{name}-{document['kind'].lower()}-{document['metadata']['name']}"
            earlier = [Object(label, document, target.object(self, depends_on=earlier))]
        self.register_outputs({})


def manifests(namespace: str) -> list[Manifest]:
    """Policies and their bindings to the namespace, each before what needs it."""
    pods = [
        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]},
        {
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "operations": ["UPDATE"],
            "resources": ["pods/ephemeralcontainers"],
        },
    ]
    jobs = [
        {
            "apiGroups": ["kubeflow.org"],
            "apiVersions": ["v1"],
            "operations": ["CREATE", "UPDATE"],
            "resources": ["pytorchjobs"],
        }
    ]
    # A job that is older than the policy must not be kept from going: its finalizers go by an update.
    staying = [{"name": "stays", "expression": "!has(object.metadata.deletionTimestamp)"}]
    return [
        _policy(POLICY, pods, _PODS),
        _binding(POLICY, namespace),
        _policy(JOB_POLICY, jobs, _PODS_OF_JOB, staying),
        _binding(JOB_POLICY, namespace),
    ]


def _policy(
    name: str, rules: list[Manifest], pods: str, conditions: Sequence[Manifest] | None = None
) -> Manifest:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": rules},
            **({"matchConditions": list(conditions)} if conditions else {}),
            "variables": [
                {"name": "pods", "expression": pods},
                {"name": "byPod", "expression": _BY_POD},
                {"name": "containers", "expression": _CONTAINERS},
            ],
            "validations": [rule.validation() for rule in RULES],
        },
    }


def _binding(policy: str, namespace: str) -> Manifest:
    """The API server itself gives every namespace this label, and nobody can change it."""
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": policy},
        "spec": {
            "policyName": policy,
            "validationActions": ["Deny"],
            "matchResources": {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
            },
        },
    }
