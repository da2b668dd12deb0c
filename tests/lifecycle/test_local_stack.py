"""The life of the local stack, in the order in which a person lives it.

The tests of this file share one lab and run in the order in which they stand: bringing it up costs minutes.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import signal
import subprocess
import time
from collections import Counter
from typing import Any

import pytest

from lab import processes
from lab.cli import engine, lab_state, orphan_processes, services
from lab.cli.errors import LabError
from lab.cli.interrupts import WAITING
from lab.cli.job import events
from lab.cli.lab_state import Condition
from lab.cli.up import job_of
from lab.nodes import cleanup
from tests.lifecycle.conftest import PROJECT, UP_SECONDS, Driver
from tests.terminal import Terminal

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def up(driver: Driver) -> dict[str, Any]:
    """The first `make up` that comes to its end, after one that was killed with -9 and one that met ^C."""
    _kill_in_the_middle(driver)
    _interrupt_in_the_middle(driver)
    return driver.json("up")


def _kill_in_the_middle(driver: Driver) -> None:
    """Start `up`, try a second one beside it, and kill the first while the engine is at work."""
    process = subprocess.Popen(
        driver.command("up"), cwd=PROJECT, env=driver.variables, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout
    for line in process.stdout:
        print(line, end="")
        if "creating" in line and "aws:eks" in line:
            break
    second = driver.run("up")
    assert second.returncode == 1
    assert f"process {process.pid}" in second.stderr, "the second `up` must name the first"
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    abandoned = processes.find(driver.lab, engine.RECORD)
    assert abandoned, "the engine goes on alone, and the next command must know of it"
    assert lab_state.condition(driver.lab) is Condition.CUT_SHORT


def _interrupt_in_the_middle(driver: Driver) -> None:
    """Press ^C once on a terminal while the engine creates the network."""
    with Terminal(driver.command("up"), driver.variables, PROJECT) as terminal:
        terminal.wait_for("aws:ec2:Subnet", UP_SECONDS)
        terminal.press_ctrl_c()
        status = terminal.wait(300)
        print(terminal.text[-20000:])
        assert status == 130
        assert WAITING in terminal.text
        assert "`make up` goes on from there" in terminal.text
    assert lab_state.condition(driver.lab) is Condition.READY
    assert orphan_processes.find(driver.lab) == []
    assert driver.stack().pending() == []
    assert driver.stack().resources() != []


@pytest.fixture(scope="module")
def job(driver: Driver, up: dict[str, Any]) -> Any:
    found = job_of(driver.lab, up["outputs"])
    assert found is not None
    return found


def test_up_recovers_creates_and_trains(up: dict[str, Any]) -> None:
    assert up["changes"].get("create", 0) > 60
    assert up["changes"].get("same", 0) > 0, "what the interrupted `up` had made was thrown away"
    assert up["trained"]
    picture = PROJECT / up["picture"]
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_the_loss_falls_well_below_the_unigram_entropy(job: Any) -> None:
    records = events(job.metrics)
    losses = [record["loss"] for record in records if record["event"] == "step"]
    entropy = records[0]["unigram_entropy"]
    assert 2.0 < entropy < math.log(256), "bytes of English text, in nats"
    assert losses[0] > entropy
    assert losses[-1] < 0.8 * entropy


def test_every_process_listens_on_loopback_or_the_bridge_only(driver: Driver, up: dict[str, Any]) -> None:
    allowed = {"127.0.0.1", "[::1]", str(driver.lab.gateway)}
    listening = driver.shell("ss -Hltnp").stdout.splitlines()
    pids = {str(process.pid) for process in processes.recorded(driver.lab)}
    own = [line for line in listening if any(f"pid={pid}," in line for pid in pids)]
    assert own
    addresses = {line.split()[3].rpartition(":")[0] for line in own}
    assert addresses <= allowed


def test_a_second_up_finds_nothing_to_do(driver: Driver, up: dict[str, Any]) -> None:
    again = driver.json("up")
    assert again["nothing_to_do"], again["changes"]
    assert not again["trained"]


def test_plain_tools_work(driver: Driver, up: dict[str, Any], job: Any) -> None:
    """What `eval "$(make env)"` promises."""
    assert (
        json.loads(driver.shell("pulumi stack output --json -s local").stdout).keys() == up["outputs"].keys()
    )
    assert driver.shell("pulumi preview -s local --diff --expect-no-changes").returncode == 0
    nodes = json.loads(driver.kubectl("get nodes -o json"))["items"]
    assert all(_ready(node) for node in nodes)
    assert len(json.loads(driver.shell("aws ec2 describe-vpcs").stdout)["Vpcs"]) == 1
    assert "loss" in driver.kubectl(f"logs -n {job.namespace} {job.name}-worker-0 --tail=-1")
    assert driver.shell("promtool --version").returncode == 0


def _ready(node: dict[str, Any]) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"]["conditions"])


def test_accelerated_nodes_offer_gpus_and_efa_and_are_tainted(driver: Driver, up: dict[str, Any]) -> None:
    nodes = json.loads(driver.kubectl("get nodes -l node.kubernetes.io/instance-type=p5.48xlarge -o json"))[
        "items"
    ]
    assert len(nodes) == 3
    for node in nodes:
        assert node["status"]["allocatable"]["nvidia.com/gpu"] == "8"
        assert node["status"]["allocatable"]["vpc.amazonaws.com/efa"] == "32"
        assert "nvidia.com/gpu" in {taint["key"] for taint in node["spec"]["taints"]}


def test_prometheus_scraped_the_trainers(driver: Driver, up: dict[str, Any]) -> None:
    query = "count(shardyard_trainer_loss)"
    address = driver.kubectl(
        "get pods -A -l app.kubernetes.io/name=prometheus -o jsonpath='{.items[0].status.podIP}'"
    )
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        # the job has ended, so ask over the past half hour
        answer = driver.shell(
            f"promtool query range --start=$(date +%s -d '-30 min') http://{address}:9090 '{query}'"
        )
        if answer.returncode == 0 and "=>" in answer.stdout:
            break
        time.sleep(3)
    assert "=>" in answer.stdout


def test_tokens_go_through_access_entries(driver: Driver, up: dict[str, Any]) -> None:
    """A viewer may look and not touch; a stranger may do nothing."""
    roles = {role["RoleName"]: role["Arn"] for role in driver.client("iam").list_roles()["Roles"]}
    viewer = next(arn for name, arn in roles.items() if "viewer" in name)
    cluster = up["outputs"]["cluster"]
    assert _as_role(driver, cluster, viewer, "get pods -n training").returncode == 0
    assert _as_role(driver, cluster, viewer, "delete pod -n training --all").returncode != 0
    stranger = driver.client("iam").create_role(RoleName="stranger", AssumeRolePolicyDocument=_TRUST)["Role"][
        "Arn"
    ]
    refused = _as_role(driver, cluster, stranger, "get pods -n training")
    driver.client("iam").delete_role(RoleName="stranger")
    assert refused.returncode != 0
    assert "nauthorized" in refused.stderr or "logged in" in refused.stderr


_TRUST = json.dumps(
    {
        "Statement": [{"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "sts:AssumeRole"}],
        "Version": "2012-10-17",
    }
)


def _as_role(driver: Driver, cluster: str, role: str, command: str) -> subprocess.CompletedProcess[str]:
    token = (
        f"$(aws eks get-token --cluster-name {cluster} --role-arn {role} --query status.token --output text)"
    )
    field = "kubectl config view --raw -o jsonpath='{.clusters[0].cluster.%s}'"
    authority = driver.lab.state / "ca.pem"
    return driver.shell(
        f"set -e; {field % 'certificate-authority-data'} | base64 -d > {authority}; "
        f"kubectl --kubeconfig /dev/null --server $({field % 'server'}) "
        f"--certificate-authority {authority} --token {token} {command}"
    )


def test_refresh_sees_no_drift_and_then_the_drift_that_there_is(driver: Driver, up: dict[str, Any]) -> None:
    stack = driver.stack()
    assert set(stack.refresh()) <= {"same"}
    ec2 = driver.client("ec2")
    vpc = ec2.describe_vpcs()["Vpcs"][0]["VpcId"]
    ec2.create_tags(Resources=[vpc], Tags=[{"Key": "Name", "Value": "renamed-by-hand"}])
    assert driver.shell("pulumi refresh -s local --yes --skip-preview --expect-no-changes").returncode != 0
    changes = stack.up()
    assert changes.get("update") == 1, changes
    tags = {tag["Key"]: tag["Value"] for tag in ec2.describe_vpcs(VpcIds=[vpc])["Vpcs"][0]["Tags"]}
    assert tags["Name"] != "renamed-by-hand"


def test_a_lost_worker_ends_in_a_finished_job_with_a_continuous_curve(driver: Driver, job: Any) -> None:
    """A copy of the stack's own job, made with kubectl; one of its pods is deleted once it has a checkpoint."""
    copies = _copy_of(driver, job, "llama-recovers")
    driver.shell(f"kubectl apply -f - <<'EOF'\n{json.dumps(copies)}\nEOF")
    folder = job.folder.parent / "llama-recovers"
    _wait_for(lambda: list(folder.glob("checkpoints/step-*")), 180, "no checkpoint appeared")
    driver.kubectl(f"delete pod -n {job.namespace} llama-recovers-worker-1 --wait=false")
    states = ("Succeeded", "Failed")
    selector = "-o jsonpath='{.status.conditions[?(@.status==\"True\")].type}'"
    command = f"get pytorchjob -n {job.namespace} llama-recovers {selector}"
    _wait_for(lambda: any(s in driver.kubectl(command) for s in states), 600, "the job did not end", every=10)
    assert "Succeeded" in driver.kubectl(command)
    unbroken = {record["step"]: record["loss"] for record in events(job.metrics) if record["event"] == "step"}
    reports = [one for one in events(folder / "metrics.jsonl") if one["event"] in ("start", "step")]
    assert sum(report["event"] == "start" for report in reports) > 1, "the job never restarted"
    assert {report["step"] for report in reports if report["event"] == "step"} >= set(unbroken)
    for before, report in itertools.pairwise(reports):
        step = report["step"]
        # the first report after a restart is the mean of fewer steps
        if (before["event"], report["event"]) == ("step", "step") and step in unbroken:
            assert report["loss"] == pytest.approx(unbroken[step], abs=1e-3), f"step {step} differs"
    driver.kubectl(
        f"delete pytorchjob,configmap -n {job.namespace} llama-recovers llama-recovers-config --ignore-not-found"
    )


def _copy_of(driver: Driver, job: Any, name: str) -> dict[str, Any]:
    """The job and its configuration under another name (and so with another output folder)."""
    copies = []
    for kind, original in (("configmap", f"{job.name}-config"), ("pytorchjob", job.name)):
        manifest = json.loads(driver.kubectl(f"get {kind} -n {job.namespace} {original} -o json"))
        kept = {key: manifest[key] for key in ("apiVersion", "kind", "spec", "data") if key in manifest}
        metadata = {
            "name": original,
            "namespace": job.namespace,
            "labels": manifest["metadata"].get("labels", {}),
        }
        copies.append(json.loads(json.dumps({**kept, "metadata": metadata}).replace(job.name, name)))
    return {"apiVersion": "v1", "kind": "List", "items": copies}


def _wait_for(condition: Any, seconds: float, otherwise: str, every: float = 1) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, otherwise
        time.sleep(every)


def test_secrets_and_tokens_are_not_in_the_state(driver: Driver, up: dict[str, Any]) -> None:
    text = json.dumps(driver.stack().export())
    assert "k8s-aws-v1." not in text
    assert '"Authorization"' not in text


def test_down_leaves_nothing_and_deletes_in_order(driver: Driver, up: dict[str, Any]) -> None:
    before = services.ask(driver.lab, "calls")[-1]["sequence"]
    stack = driver.stack()
    count = sum(not resource["type"].startswith("pulumi:providers:") for resource in stack.resources())
    assert stack.destroy()["delete"] >= count > 100
    assert stack.resources() == []
    assert services.remaining_resources(driver.lab) == []
    calls = [
        call
        for call in services.ask(driver.lab, "calls")
        if call["sequence"] > before and call["status"] < 400
    ]
    assert_order(calls)
    report = driver.json("down")
    assert report["deleted"] in (0, 1)  # the stack itself may be counted
    assert not driver.lab.state.exists()
    assert cleanup.leftovers(driver.lab) == []
    assert orphan_processes.find(driver.lab) == []
    with pytest.raises(LabError):
        services.ask(driver.lab, "health")


def assert_order(calls: list[dict[str, Any]]) -> None:
    """Pools and associations go before what they stand on, the network and the reservation last."""
    first = {action: min(c["sequence"] for c in calls if c["action"] == action) for action in _actions(calls)}
    last = {action: max(c["sequence"] for c in calls if c["action"] == action) for action in _actions(calls)}
    for earlier, later in (
        ("DeleteDataRepositoryAssociation", "DeleteFileSystem"),
        ("DeleteNodegroup", "DeleteCluster"),
        ("DeleteAddon", "DeleteCluster"),
        ("DeleteNodegroup", "CancelCapacityReservation"),
        ("DeleteCluster", "DeleteVpc"),
        ("DeleteFileSystem", "DeleteVpc"),
        ("DeleteSubnet", "DeleteVpc"),
        ("DeleteNatGateway", "DeleteVpc"),
    ):
        assert earlier in first, f"{earlier} was never called"
        assert later in first, f"{later} was never called"
        assert last[earlier] < first[later], f"{earlier} must be over before {later} begins"


def _actions(calls: list[dict[str, Any]]) -> Counter[str]:
    return Counter(call["action"] for call in calls)


def test_down_on_nothing_is_fine(driver: Driver) -> None:
    report = driver.json("down")
    assert report["deleted"] == 0
    assert report["note"] == "there was nothing to take down"
