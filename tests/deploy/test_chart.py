"""The chart, rendered: by Helm where it is installed, else by Go's template engine, which Helm uses."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from deploy.image import entrypoint

from qanat.app.rules.setup_rules import Setup, refusals
from qanat.app.settings.listener_plan import plan_listeners
from qanat.app.settings.loading import load

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy" / "helm" / "qanat"
RENDERER = Path(__file__).parent / "chart_renderer" / "main.go"
SECURED = {
    "tls": {"secret": "qanat-tls"},
    "etcd": {"endpoints": ["https://etcd-0:2379", "https://etcd-1:2379"], "tlsSecret": "etcd-tls"},
}
OPEN = {"open": True, "environment": "dev", "replicas": 1}
HELM, GO = shutil.which("helm"), shutil.which("go")

pytestmark = pytest.mark.skipif(not HELM and not GO, reason="neither helm nor go is here: the chart is not rendered")


@pytest.fixture(scope="module")
def renderer(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    if HELM:
        return [HELM, "template", "test", str(CHART), "--namespace", "queues", "--values", "-"]
    program = tmp_path_factory.mktemp("renderer") / "render"
    build = ["go", "build", "-o", str(program), str(RENDERER)]
    environment = {**os.environ, "GO111MODULE": "off", "GOFLAGS": "-p=1"}
    subprocess.run(build, check=True, env=environment, timeout=600)
    return [str(program), str(CHART / "templates")]


def run(renderer: list[str], values: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    merged = _merged(yaml.safe_load((CHART / "values.yaml").read_text()), values)
    about = yaml.safe_load((CHART / "Chart.yaml").read_text())
    chart = {name[0].upper() + name[1:]: value for name, value in about.items()}
    whole = {"Values": merged, "Release": {"Name": "test", "Namespace": "queues"}, "Chart": chart}
    given = merged if HELM else whole
    return subprocess.run(renderer, input=json.dumps(given), capture_output=True, text=True, timeout=120)


def _merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    both = {**below, **above}
    for name in below.keys() & above.keys():
        if isinstance(below[name], dict):
            both[name] = _merged(below[name], above[name])
    return both


def render(renderer: list[str], values: dict[str, Any]) -> dict[str, Any]:
    done = run(renderer, values)
    assert done.returncode == 0, done.stderr
    found = [one for one in yaml.safe_load_all(done.stdout) if one]
    return {f"{one['kind']}/{one['metadata']['name']}": one for one in found}


def pod_of(parts: dict[str, Any]) -> dict[str, Any]:
    return dict(parts["StatefulSet/test-qanat"]["spec"]["template"]["spec"])


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"tls": {"secret": "x"}}, "more than one broker needs etcd.endpoints"),
        ({"etcd": SECURED["etcd"]}, "tls.secret: name a secret"),
        ({"open": True, "replicas": 1}, "open: true is refused in production"),
    ],
)
def test_what_cannot_work_is_refused(renderer: list[str], values: dict[str, Any], said: str) -> None:
    done = run(renderer, values)
    assert done.returncode != 0
    assert said in done.stderr


def test_the_parts_of_a_protected_cluster(renderer: list[str]) -> None:
    parts = render(renderer, SECURED)
    assert sorted(parts) == [
        "PodDisruptionBudget/test-qanat",
        "Service/test-qanat",
        "Service/test-qanat-bootstrap",
        "StatefulSet/test-qanat",
    ]
    assert parts["PodDisruptionBudget/test-qanat"]["spec"]["maxUnavailable"] == 1
    headless = parts["Service/test-qanat"]["spec"]
    assert (headless["clusterIP"], headless["publishNotReadyAddresses"]) == ("None", True)
    whole = parts["StatefulSet/test-qanat"]["spec"]
    assert (whole["replicas"], whole["podManagementPolicy"]) == (3, "Parallel")
    assert whole["selector"]["matchLabels"] == whole["template"]["metadata"]["labels"] == headless["selector"]


def test_a_pod_has_no_rights_that_it_does_not_need(renderer: list[str]) -> None:
    pod = pod_of(render(renderer, SECURED))
    (broker,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["enableServiceLinks"] is False, "variables of services would be taken for settings"
    assert broker["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert "requiredDuringSchedulingIgnoredDuringExecution" in pod["affinity"]["podAntiAffinity"]


def test_probes_tell_alive_from_ready_and_a_pod_waits_before_it_stops(renderer: list[str]) -> None:
    pod = pod_of(render(renderer, SECURED))
    (broker,) = pod["containers"]
    paths = {name: broker[name]["httpGet"]["path"] for name in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert paths == {
        "startupProbe": "/health/live",
        "livenessProbe": "/health/live",
        "readinessProbe": "/health/ready",
    }
    assert broker["readinessProbe"]["httpGet"]["scheme"] == "HTTPS"
    waits = broker["lifecycle"]["preStop"]["exec"]["command"]
    assert waits[2:] == ["wait-restartable", "60"]
    assert pod["terminationGracePeriodSeconds"] > int(waits[-1])


@pytest.mark.parametrize("values", [SECURED, {**SECURED, "settings": {"num.partitions": 6}}, OPEN])
def test_the_variables_of_a_pod_are_settings_of_a_broker(renderer: list[str], values: dict[str, Any]) -> None:
    (broker,) = pod_of(render(renderer, values))["containers"]
    given = {one["name"]: one.get("value", "test-qanat-0") for one in broker["env"]}
    given = {name: text.replace("$(POD_NAME)", given["POD_NAME"]) for name, text in given.items()}
    if given.pop("SECURITY", None) == "open":
        given["QANAT_ALLOW_UNAUTHENTICATED_CLIENTS"] = "true"
    given |= entrypoint.defaults(given)
    loaded = load([], None, given)
    settings = loaded.settings
    if settings.environment == "production":
        assert list(refusals(Setup(settings, plan_listeners(settings), hosts=3), loaded.values)) == []
    assert settings.node_id == "test-qanat-0"
    assert settings.inter_broker_listener_name == "BROKERS"
    advertised = {one.name: one.host for one in settings.advertised_listeners}
    assert set(advertised.values()) == {"test-qanat-0.test-qanat.queues.svc"}
    assert settings.broker.num_partitions == values.get("settings", {}).get("num.partitions", 4)


def test_secrets_are_files_that_others_cannot_read(renderer: list[str]) -> None:
    pod = pod_of(render(renderer, SECURED))
    secrets = {one["name"]: one["secret"] for one in pod["volumes"] if "secret" in one}
    assert {name: one["secretName"] for name, one in secrets.items()} == {"tls": "qanat-tls", "etcd-tls": "etcd-tls"}
    assert {one["defaultMode"] & 0o007 for one in secrets.values()} == {0}
    assert "tls" not in [one["name"] for one in pod_of(render(renderer, OPEN))["volumes"]]


@pytest.mark.skipif(HELM is None, reason="helm is not here: the chart is not linted")
def test_helm_finds_nothing_to_complain_about() -> None:
    values = ["--set", "tls.secret=x", "--set", "etcd.endpoints={https://etcd-0:2379}"]
    done = subprocess.run([str(HELM), "lint", "--strict", str(CHART), *values], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
