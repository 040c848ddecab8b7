"""The chart: linted and rendered by Helm, its objects judged by Kubernetes' own schemas.

Helm and the schemas are this machine's, or come from PyPI.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
import yaml
from deploy.image import entrypoint
from tools.toolchains.deployment import have_helm, have_validate
from tools.toolchains.registries import MissingToolError

from qanat.app.rules.setup_rules import Setup, refusals
from qanat.app.settings.listener_plan import plan_listeners
from qanat.app.settings.loading import load

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy" / "helm" / "qanat"
KUBERNETES = ("1.29.0", "1.37.0")
"""The oldest and the newest that the schemas know and the chart is meant for."""
SECURED: dict[str, Any] = {
    "tls": {"secret": "qanat-tls"},
    "etcd": {"endpoints": ["https://etcd-0:2379", "https://etcd-1:2379"], "tlsSecret": "etcd-tls"},
}
GOLDEN = Path(__file__).parent / "golden"
Program = TypeVar("Program")
OPEN: dict[str, Any] = {"open": True, "environment": "dev", "replicas": 1}


@pytest.fixture(scope="module")
def helm() -> str:
    return program_of(have_helm)


def program_of(find: Callable[[], Program]) -> Program:
    """This machine's, or PyPI's; where neither can be had, the test is skipped."""
    try:
        return find()
    except MissingToolError as fault:
        pytest.skip(str(fault))


@pytest.fixture
def renderer(helm: str) -> list[str]:
    return [helm, "template", "test", str(CHART), "--namespace", "queues", "--values", "-"]


def run(renderer: list[str], values: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(renderer, input=json.dumps(values), capture_output=True, text=True, timeout=120)


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


def test_the_whole_text_of_a_protected_cluster_is_the_reviewed_one(renderer: list[str]) -> None:
    """After a change: `helm template test deploy/helm/qanat -n queues -f …/values.yaml > …/secured.yaml`; read it."""
    values = yaml.safe_load((GOLDEN / "values.yaml").read_text())

    assert run(renderer, values).stdout == (GOLDEN / "secured.yaml").read_text()


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


def test_settings_of_a_values_file_are_the_texts_that_stand_there(renderer: list[str], tmp_path: Path) -> None:
    """Helm reads every number of a file as a float."""
    texts = ["604800000", "-1", "0", "0.25", "-5000000", "true", "9007199254740991", "a;b"]
    file = tmp_path / "values.yaml"
    lines = [f"  number.{place}: {text}" for place, text in enumerate(texts)]
    file.write_text("\n".join(["settings:", *lines, "  quoted: '9223372036854775807'"]))

    (broker,) = pod_of(render([*renderer, "--values", str(file)], OPEN))["containers"]

    seen = {one["name"]: one.get("value") for one in broker["env"]}
    assert [seen[f"QANAT_NUMBER_{place}"] for place in range(len(texts))] == texts
    assert seen["QANAT_QUOTED"] == "9223372036854775807"


def test_a_number_that_helm_cannot_hold_is_refused(renderer: list[str]) -> None:
    done = run(renderer, {**OPEN, "settings": {"log.retention.ms": 2**63 - 1}})

    assert done.returncode != 0
    assert "settings: write the number of log.retention.ms in quotes: it has too many digits" in done.stderr


def test_etcd_gets_no_certificate_where_the_secret_has_none(renderer: list[str]) -> None:
    etcd = {**SECURED["etcd"], "clientCertificate": False}
    (broker,) = pod_of(render(renderer, {**SECURED, "etcd": etcd}))["containers"]

    names = [one["name"] for one in broker["env"] if one["name"].startswith("QANAT_METADATA_ETCD_TLS")]

    assert names == ["QANAT_METADATA_ETCD_TLS_CA_FILE"], "with one: the reviewed text"


def test_secrets_are_files_that_others_cannot_read(renderer: list[str]) -> None:
    pod = pod_of(render(renderer, SECURED))
    secrets = {one["name"]: one["secret"] for one in pod["volumes"] if "secret" in one}
    assert {name: one["secretName"] for name, one in secrets.items()} == {"tls": "qanat-tls", "etcd-tls": "etcd-tls"}
    assert {one["defaultMode"] & 0o007 for one in secrets.values()} == {0}
    assert "tls" not in [one["name"] for one in pod_of(render(renderer, OPEN))["volumes"]]


@pytest.mark.parametrize("values", [SECURED, OPEN])
def test_helm_finds_nothing_to_complain_about(helm: str, values: dict[str, Any]) -> None:
    done = run([helm, "lint", "--strict", str(CHART), "--values", "-"], values)

    assert done.returncode == 0, done.stdout
    assert "1 chart(s) linted, 0 chart(s) failed" in done.stdout


@pytest.fixture(scope="module")
def judge() -> list[str]:
    return program_of(have_validate)


@pytest.mark.long
@pytest.mark.parametrize("kubernetes", KUBERNETES)
def test_kubernetes_takes_every_object(renderer: list[str], judge: list[str], kubernetes: str, tmp_path: Path) -> None:
    files = [tmp_path / "secured.yaml", tmp_path / "open.yaml"]
    for file, values in zip(files, (SECURED, OPEN), strict=True):
        file.write_text(run(renderer, values).stdout)

    done = subprocess.run([*judge, "--strict", "-k", kubernetes, *map(str, files)], capture_output=True, text=True)

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.long
def test_the_judge_refuses_a_field_that_kubernetes_does_not_know(judge: list[str], tmp_path: Path) -> None:
    wrong = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "x"}, "spec": {"max": 1}}
    objects = tmp_path / "objects.yaml"
    objects.write_text(yaml.safe_dump(wrong))

    assert subprocess.run([*judge, "--strict", str(objects)], capture_output=True).returncode != 0
