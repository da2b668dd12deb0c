"""The PyTorchJob of a job: what a worker asks for, how workers meet, what starts a job anew."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.instances import ACCELERATED, INSTANCE_TYPES
from cluster.settings.capacity import OnDemand
from cluster.settings.node_groups import Efa, NodeGroupSettings, Nodes, Taint
from cluster.settings.sections import Job, WorkerResources, Workers
from workloads.training_job import config_map_name, manifest, rendezvous_id, worker

IMAGE = f"registry/trainer@sha256:{'a' * 64}"


def pool(instance_type: str = "p5.48xlarge", **changes: Any) -> NodeGroupSettings:
    return NodeGroupSettings(
        instance_type=instance_type,
        zone="use1-az6",
        nodes=Nodes(desired=16, max=16),
        capacity=OnDemand(kind="on-demand"),
        **changes,
    )


def job(**changes: Any) -> Job:
    values: dict[str, Any] = {
        "config": "job.yaml",
        "node_group": "p5",
        "workers": Workers(min=4, max=16),
        **changes,
    }
    return Job(**values)


def made(
    the_job: Job | None = None, the_pool: NodeGroupSettings | None = None, config: str = "a: 1"
) -> dict[str, Any]:
    return manifest("llama", "training", the_job or job(), the_pool or pool(), IMAGE, config, "bucket-1")


def container(document: dict[str, Any]) -> dict[str, Any]:
    (only,) = document["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"]
    return dict(only)


def test_a_worker_knows_the_bucket_for_checkpoints() -> None:
    assert {"name": "CHECKPOINT_BUCKET", "value": "bucket-1"} in container(made())["env"]


def test_a_worker_takes_a_whole_p5() -> None:
    assert worker(job(), pool()).resources() == {
        "requests": {
            "cpu": "187",
            "memory": "1761Gi",
            "nvidia.com/gpu": "8",
            "vpc.amazonaws.com/efa": "32",
            "hugepages-2Mi": "5120Mi",
        },
        "limits": {
            "memory": "1761Gi",
            "nvidia.com/gpu": "8",
            "vpc.amazonaws.com/efa": "32",
            "hugepages-2Mi": "5120Mi",
        },
    }


@given(st.sampled_from(ACCELERATED))
def test_a_whole_node_s_worker_fits_the_node(name: str) -> None:
    instance = INSTANCE_TYPES[name]
    asks = worker(job(), pool(name))
    assert (asks.gpu, asks.efa) == (instance.gpus, instance.max_efa_interfaces)
    assert int(asks.cpu) * 1000 <= instance.allocatable_cpu_millicores - 1000, "daemons need a core"
    assert int(asks.memory.removesuffix("Gi")) <= instance.allocatable_memory_gib * 0.91
    assert int(asks.shared_memory.removesuffix("Gi")) < int(asks.memory.removesuffix("Gi"))


@given(st.integers(1, 8))
def test_workers_with_fewer_gpus_share_a_node(gpus: int) -> None:
    """As many as the GPUs allow must fit in every other respect too."""
    node = INSTANCE_TYPES["p5.48xlarge"]
    asks = worker(job(resources=WorkerResources(gpu=gpus)), pool())
    together = node.gpus // gpus
    assert together * int(asks.cpu) * 1000 <= node.allocatable_cpu_millicores
    assert together * int(asks.memory.removesuffix("Gi")) <= node.allocatable_memory_gib
    assert together * asks.efa <= node.max_efa_interfaces


def test_a_job_overrides_what_a_worker_asks_for() -> None:
    small = WorkerResources(cpu="250m", memory="1Gi", gpu=4, efa=0, huge_pages="0", shared_memory="64Mi")
    asks = worker(job(resources=small), pool()).resources()
    assert asks["requests"] == {"cpu": "250m", "memory": "1Gi", "nvidia.com/gpu": "4"}
    assert "cpu" not in asks["limits"], "throttled input threads leave GPUs idle"


def test_workers_meet_by_c10d_and_no_autoscaler_is_made() -> None:
    spec = made()["spec"]
    assert set(spec["pytorchReplicaSpecs"]) == {"Worker"}, "a master would make the job inelastic"
    policy = spec["elasticPolicy"]
    assert (policy["minReplicas"], policy["maxReplicas"]) == (4, 16)
    assert policy["rdzvBackend"] == "c10d"
    assert "metrics" not in policy
    assert spec["pytorchReplicaSpecs"]["Worker"]["replicas"] == 16
    assert spec["nprocPerNode"] == "8"
    assert "nProcPerNode" not in policy, "the operator refuses both"


def test_exit_statuses_decide_about_restarts_and_logs_stay() -> None:
    spec = made()["spec"]
    assert spec["pytorchReplicaSpecs"]["Worker"]["restartPolicy"] == "ExitCode"
    assert spec["runPolicy"]["cleanPodPolicy"] == "None"


def test_the_same_job_is_the_same_and_any_change_starts_it_anew() -> None:
    assert made() == made()
    variants = [
        made(config="a: 2"),
        made(job(workers=Workers(min=4, max=8))),
        made(job(processes_per_worker=1)),
        made(job(environment={"NCCL_DEBUG": "INFO"})),
        manifest("llama", "training", job(), pool(), IMAGE.replace("a" * 64, "b" * 64), "a: 1", "bucket-1"),
    ]
    ids = {document["spec"]["elasticPolicy"]["rdzvId"] for document in [made(), *variants]}
    assert len(ids) == 1 + len(variants)


@given(st.lists(st.tuples(st.text(max_size=5), st.integers()), min_size=2, max_size=6, unique=True))
def test_rendezvous_ids_differ_for_different_jobs(parts: list[tuple[str, int]]) -> None:
    assert len({rendezvous_id("llama", *part) for part in parts}) == len(parts)


def test_pods_land_on_their_pool_and_find_everything() -> None:
    document = made(the_pool=pool(taints=(Taint(key="team", effect="NO_EXECUTE"),)))
    template = document["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]
    pod = template["spec"]
    assert pod["nodeSelector"] == {"shardyard.dev/pool": "p5"}
    assert {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"} in pod["tolerations"]
    assert {"key": "team", "operator": "Exists", "effect": "NoExecute"} in pod["tolerations"]
    assert pod["serviceAccountName"] == "trainer"
    main = container(document)
    assert main["name"] == "pytorch"
    assert main["image"] == IMAGE
    assert main["args"] == ["-m", "trainer", "--config", "/etc/shardyard/job.yaml"]
    mounts = {mount["mountPath"]: mount["name"] for mount in main["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert set(mounts) == {"/etc/shardyard", "/fsx", "/dev/shm"}
    assert volumes[mounts["/etc/shardyard"]]["configMap"]["name"] == config_map_name("llama")
    assert volumes[mounts["/fsx"]]["persistentVolumeClaim"] == {"claimName": "fsx"}
    assert volumes[mounts["/dev/shm"]]["emptyDir"]["medium"] == "Memory"
    assert template["metadata"]["labels"]["app.kubernetes.io/component"] == "trainer"
    assert {"name": "metrics", "containerPort": 9400, "protocol": "TCP"} in main["ports"]


@pytest.mark.parametrize(("efa", "added"), [(None, ["IPC_LOCK"]), (0, None)])
def test_one_capability_and_only_for_efa(efa: int | None, added: list[str] | None) -> None:
    document = made(the_pool=pool(efa=Efa(interfaces=efa)))
    security = container(document)["securityContext"]
    assert security["capabilities"]["drop"] == ["ALL"]
    assert security["capabilities"].get("add") == added
    assert security["allowPrivilegeEscalation"] is False
    assert "privileged" not in security
    providers = [one for one in container(document)["env"] if one["name"] == "FI_PROVIDER"]
    assert bool(providers) == bool(added)


def test_a_job_s_own_variables_win() -> None:
    document = made(job(environment={"NCCL_SOCKET_IFNAME": "eth0"}))
    values = {one["name"]: one["value"] for one in container(document)["env"]}
    assert values["NCCL_SOCKET_IFNAME"] == "eth0"
