"""The operator's vendored manifests, the device plugins, the volume, Prometheus and RBAC."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster.identity import CI, TRAINERS, VIEWERS
from cluster.settings.sections import PrometheusSettings
from lab.settings import Lab
from workloads import access, device_plugins, training_operator
from workloads.manifests import FOLDER, load, render, without_descriptions
from workloads.objects import type_token
from workloads.observability import prometheus

IMAGE = "localhost:5000/x:1"


def program(name: str) -> str | None:
    """Where a program is, on PATH or in the local stack's toolchain."""
    return shutil.which(name, path=f"{Lab.from_environment().bin}:{os.environ['PATH']}")


def by_kind(documents: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {document["kind"]: document for document in documents}


def test_every_vendored_object_is_applied_once() -> None:
    documents = training_operator.manifests(IMAGE)
    kinds = [document["kind"] for document in documents]
    ordered = [kind for group in training_operator.ORDER for kind in group]
    assert sorted(kinds) == sorted(ordered)


def test_the_operator_runs_for_the_crd_that_is_there() -> None:
    found = by_kind(training_operator.manifests(IMAGE))
    assert found["CustomResourceDefinition"]["metadata"]["name"] == "pytorchjobs.kubeflow.org"
    pod = found["Deployment"]["spec"]["template"]["spec"]
    assert pod["containers"][0]["args"] == ["--enable-scheme=pytorchjob"]
    assert pod["containers"][0]["image"] == IMAGE
    assert pod["nodeSelector"] == {"shardyard.dev/pool": "system"}


def test_the_webhook_comes_after_the_operator() -> None:
    order = {kind: place for place, kinds in enumerate(training_operator.ORDER) for kind in kinds}
    assert order["ValidatingWebhookConfiguration"] > order["Deployment"] > order["ServiceAccount"]
    assert order["CustomResourceDefinition"] < order["Deployment"], (
        "its controllers watch the kind from the start"
    )


def test_only_prose_is_taken_from_the_crd() -> None:
    (original,) = load("training-operator/pytorchjobs-crd.yaml")
    stripped = without_descriptions(original)

    def fields(value: Any, path: str = "") -> set[str]:
        if isinstance(value, dict):
            return {path, *(name for key, inner in value.items() for name in fields(inner, f"{path}.{key}"))}
        if isinstance(value, list):
            return {name for place, inner in enumerate(value) for name in fields(inner, f"{path}[{place}]")}
        return {path}

    gone = fields(original) - fields(stripped)
    assert gone
    assert all(path.endswith(".description") for path in gone)
    schema = stripped["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert "properties" in schema["properties"]["spec"]


def test_vendored_files_are_what_the_module_renders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kubectl = program("kubectl")
    if not (shutil.which("go") and kubectl):
        pytest.skip("needs go and kubectl")
    monkeypatch.setenv("PATH", f"{Path(kubectl).parent}:{os.environ['PATH']}")
    offline = {"GOPROXY": "off", "GOFLAGS": "-mod=mod"}
    command = ["env", *(f"{key}={value}" for key, value in offline.items()), "go", "env", "GOMODCACHE"]
    cache = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path).stdout.strip()
    module = Path(cache) / f"{render.MODULE}@{render.VERSION}"
    if not module.exists():
        pytest.skip("the module isn't in Go's cache")
    crd, others = render.render(module)
    assert crd == (FOLDER / "training-operator/pytorchjobs-crd.yaml").read_text()
    assert others == (FOLDER / "training-operator/operator.yaml").read_text()


@pytest.mark.parametrize(
    ("pod", "label"),
    [
        (device_plugins.nvidia(IMAGE), "nvidia.com/gpu.present"),
        (device_plugins.efa(IMAGE), "vpc.amazonaws.com/efa.present"),
    ],
)
def test_device_plugins_live_where_the_device_is_and_tolerate_its_taint(
    pod: dict[str, Any], label: str
) -> None:
    spec = device_plugins.daemon_set("plugin", pod)["spec"]
    template = spec["template"]["spec"]
    assert template["nodeSelector"] == {label: "true"}
    assert {"operator": "Exists"} in template["tolerations"]
    assert template["automountServiceAccountToken"] is False
    (container,) = template["containers"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert "/var/lib/kubelet/device-plugins" in [mount["mountPath"] for mount in container["volumeMounts"]]
    assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]


def test_prometheus_finds_training_pods_by_name() -> None:
    config = yaml.safe_load(prometheus.configuration("training"))
    (scrape,) = config["scrape_configs"]
    (discovery,) = scrape["dns_sd_configs"]
    assert discovery["names"] == ["trainers.training.svc.cluster.local"]
    assert (discovery["type"], discovery["port"]) == ("A", 9400)


def test_prometheus_s_configuration_is_valid(tmp_path: Path) -> None:
    promtool = program("promtool")
    if not promtool:
        pytest.skip("needs promtool")
    file = tmp_path / "prometheus.yml"
    file.write_text(prometheus.configuration("training"))
    checked = subprocess.run(
        [promtool, "check", "config", "--syntax-only", str(file)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stderr


def test_a_new_configuration_is_a_new_prometheus_pod() -> None:
    first = prometheus.deployment(IMAGE, PrometheusSettings(), "a")["spec"]
    second = prometheus.deployment(IMAGE, PrometheusSettings(), "b")["spec"]
    assert first["template"]["metadata"] != second["template"]["metadata"]


def verbs(group: str, resource: str) -> set[str]:
    return {verb for rule in access.RULES[group] if resource in rule["resources"] for verb in rule["verbs"]}


def test_personas_may_do_their_work_and_no_more() -> None:
    assert {"create", "delete"} <= verbs(TRAINERS, "pytorchjobs")
    assert "create" in verbs(TRAINERS, "pods/exec")
    assert verbs(VIEWERS, "pytorchjobs") == {"get", "list", "watch"}
    assert verbs(VIEWERS, "pods") == {"get", "list", "watch"}
    assert not verbs(VIEWERS, "pods/exec")
    assert "create" in verbs(CI, "pytorchjobs")
    for group, rules in access.RULES.items():
        assert not verbs(group, "secrets")
        for rule in rules:
            assert "*" not in {*rule["verbs"], *rule["resources"], *rule["apiGroups"]}


@pytest.mark.parametrize(
    ("api", "kind", "token"),
    [
        ("v1", "Secret", "kubernetes:core/v1:Secret"),
        ("apps/v1", "Deployment", "kubernetes:apps/v1:Deployment"),
        ("kubeflow.org/v1", "PyTorchJob", "kubernetes:kubeflow.org/v1:PyTorchJob"),
    ],
)
def test_objects_have_the_sdk_s_own_types(api: str, kind: str, token: str) -> None:
    assert type_token({"apiVersion": api, "kind": kind}) == token
