"""The image, built and run: the seeds' lines under podman, three brokers by compose, and its root without an engine.

It is built from Debian (mmdebstrap), because no registry need be reachable. What is built once is kept in
`.cache/deploy`, and as images called `localhost/qanat-…`.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from deploy.image import healthcheck
from tests.app.start.test_start import free_port
from tools.toolchains.deployment import have_compose
from tools.toolchains.registries import MissingToolError

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / ".cache" / "deploy"
BASE, IMAGE, ETCD = "localhost/qanat-base:latest", "localhost/qanat:latest", "localhost/qanat-etcd:latest"
DEBIAN = "http://deb.debian.org/debian"
SIZE_MAX = 150_000_000
FIRST_ANSWER_S, EXIT_S = 60.0, 10.0
SOON_S, STARTS = 1.5, 5
PROCESSES = 4096
TOOLS = ("podman", "buildah", "mmdebstrap")
FIREWALLS = ("iptables", "nft")
"""Podman publishes ports by one of these; 4.3 by the first."""
PORTS = (9092, 9093, 9094, 8080, 8081, 8082)
PROJECT = "qanat-deploy-test"
BROKERS = {"broker-1": 8080, "broker-2": 8081, "broker-3": 8082}
"""The compose file's, and where each answers /health."""
SEEDS = {"NODE_ID": "broker-001", "BROKER_PORT": "9092", "DATA_DIR": "/app/data"}

missing = [name for name in TOOLS if shutil.which(name) is None]
if not any(map(shutil.which, FIREWALLS)):
    missing.append(" or ".join(FIREWALLS))
with_engine = pytest.mark.skipif(
    bool(missing) or os.getuid() != 0, reason=f"no root, or no {', '.join(missing)}: the image is not built"
)


def run(*words: str, given: str = "", **variables: str) -> str:
    environment = {**os.environ, "BUILDAH_ISOLATION": "chroot", **variables}
    done = subprocess.run(words, input=given, capture_output=True, text=True, env=environment, cwd=ROOT)
    assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return done.stdout


def own_limits() -> list[str]:
    """Limits that a container may have also where root may raise none: podman's defaults and its `host` fail there."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    return [f"--ulimit=nofile={most}:{most}", f"--ulimit=nproc={PROCESSES}:{PROCESSES}"]


def _has(image: str) -> bool:
    return subprocess.run(["podman", "image", "exists", image]).returncode == 0


@pytest.fixture(scope="module")
def base() -> str:
    if not _has(BASE):
        KEPT.mkdir(parents=True, exist_ok=True)
        include = "--include=python3,python3-venv,python3-pip,ca-certificates"
        archive = str(KEPT / "base.tar")
        run("mmdebstrap", "--variant=minbase", include, "bookworm", archive, DEBIAN)
        run("podman", "import", archive, BASE)
    return BASE


@pytest.fixture(scope="module")
def image(base: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Built as `deploy/image/Containerfile` says, from wheels that were made on this machine."""
    wheels = KEPT / "wheels"
    changed = max(path.stat().st_mtime for path in (ROOT / "src").rglob("*.py"))
    if not [one for one in wheels.glob("qanat-*.whl") if one.stat().st_mtime >= changed]:
        shutil.rmtree(wheels, ignore_errors=True)
        pip = (sys.executable, "-m", "pip", "--quiet", "wheel", "--no-build-isolation", "-c", "constraints.txt")
        run(*pip, "-w", str(wheels), "./qanat-client", ".[etcd,security]")
    context = tmp_path_factory.mktemp("context")
    shutil.copytree(wheels, context / "dist")
    shutil.copytree(ROOT / "deploy" / "image", context / "deploy" / "image")
    shutil.copy(ROOT / "constraints.txt", context)
    file = str(context / "deploy" / "image" / "Containerfile")
    arguments = ("--build-arg", f"BASE={base}", "--build-arg", "PIP_ARGS=--no-index")
    run("buildah", "bud", "--layers", "--format", "docker", *arguments, "-f", file, "-t", IMAGE, str(context))
    return IMAGE


@pytest.fixture(scope="module")
def etcd(base: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """etcd from Debian's package, where its own registry cannot be reached."""
    if not _has(ETCD):
        folder = tmp_path_factory.mktemp("etcd")
        subprocess.run(["apt-get", "download", "-q", "etcd-server"], cwd=folder, check=True, capture_output=True)
        (package,) = folder.glob("etcd-server*.deb")
        run("dpkg", "-x", str(package), str(folder / "root"))
        (folder / "Containerfile").write_text(f"FROM {base}\nCOPY root/usr/bin/etcd /usr/bin/etcd\n")
        run("buildah", "bud", "-t", ETCD, str(folder))
    return ETCD


def _wait_for(port: int, path: str, status: int, within_s: float = FIRST_ANSWER_S) -> float:
    """How long it took until the answer had this status."""
    began = time.monotonic()
    while healthcheck.status(port, path) != status:
        assert time.monotonic() - began < within_s, f"{path} on {port} does not answer {status}"
        time.sleep(0.05)
    return time.monotonic() - began


@with_engine
def test_the_image_is_small_has_no_shell_and_is_not_root(image: str) -> None:
    (found,) = json.loads(run("podman", "image", "inspect", image))
    assert found["Size"] <= SIZE_MAX
    assert found["Config"]["User"] == "10001:10001"
    assert found["Healthcheck"]["Test"] == ["CMD", "/usr/bin/python3", "/opt/image/healthcheck.py"]
    folder = Path(run("podman", "image", "mount", image).strip())
    try:
        programs = {path.name for path in (folder / "usr" / "bin").iterdir()}
        assert {name for name in programs if not name.startswith("python3")} == {"qanat"}
    finally:
        run("podman", "image", "unmount", image)


@with_engine
def test_a_container_answers_its_first_request_soon(image: str) -> None:
    """From the engine's start of it, the engine included: the best of a few, as the machine may have other work."""
    name, found = "qanat-first-answer", []
    for _ in range(STARTS):
        http = free_port()
        began = time.monotonic()
        run("podman", "run", "-d", "--name", name, "-e", "SECURITY=open", "-p", f"{http}:8080", *own_limits(), image)
        try:
            _wait_for(http, "/health", 200)
            found.append(time.monotonic() - began)
        finally:
            run("podman", "rm", "-f", "-v", name)

    assert min(found) <= SOON_S, found


@with_engine
def test_the_seeds_line_runs_a_secured_broker(image: str) -> None:
    kafka, http = free_port(), free_port()
    name = "qanat-seeds-line"
    variables = [word for key, value in SEEDS.items() for word in ("-e", f"{key}={value}")]
    published = ["-p", f"{kafka}:9092", "-p", f"{http}:8080", "-v", f"{name}:/app/data"]
    rights = ["--read-only", "--cap-drop", "ALL", *own_limits()]
    run("podman", "run", "-d", "--name", name, *variables, *published, *rights, image)
    try:
        _wait_for(http, "/health", 200)
        run("podman", "healthcheck", "run", name)
        parts = {
            row["name"]: row["value"]
            for row in json.loads(run("podman", "exec", name, "qanat", "version", "-o", "json"))
        }
        assert parts["core"].startswith("compiled: ")
        assert healthcheck.status(http, "/api/v1/topics") == 401
        client = ("--command-config", "/app/data/security/client.properties")
        run("podman", "exec", name, "qanat", "topic", "create", "orders", *client)
        assert "orders" in run("podman", "exec", name, "qanat", "topic", "list", *client)
        adding = ("qanat", "user", "add", "second", "--data-dir", "/app/data", "--password-file", "/dev/stdin")
        run("podman", "exec", "-i", name, *adding, given="correct horse battery\n")
        assert "second" in run("podman", "exec", name, "qanat", "user", "list", *client)
        check = ("qanat", "config", "check", "-c", "/app/data/security/broker.yaml", "--environment", "production")
        assert run("podman", "exec", name, *check).startswith("ok")
        began = time.monotonic()
        run("podman", "stop", "-t", "60", name)
        assert time.monotonic() - began < EXIT_S
        assert run("podman", "inspect", name, "--format", "{{.State.ExitCode}}").strip() == "0"
        run("podman", "start", name)
        _wait_for(http, "/health", 200)
        assert "orders" in run("podman", "exec", name, "qanat", "topic", "list", *client)
    finally:
        run("podman", "rm", "-f", "-v", name)
        run("podman", "volume", "rm", "-f", name)


@pytest.fixture
def compose(image: str, etcd: str) -> Iterator[dict[str, float]]:
    """Three brokers that run; how long each took from its start to its first answer."""
    try:
        program = have_compose()
    except MissingToolError as fault:
        pytest.skip(f"{fault}: the compose file is not run")
    deadline = time.monotonic() + FIRST_ANSWER_S
    while (taken := [port for port in PORTS if _is_taken(port)]) and time.monotonic() < deadline:
        time.sleep(0.2)  # Another test may be about to end.
    if taken:
        pytest.skip(f"ports {taken} are taken: the compose file is not run")
    file = str(ROOT / "deploy" / "compose" / "compose.yaml")
    words = [*program, "-p", PROJECT, "-f", file, "--podman-run-args=" + " ".join(own_limits())]
    variables = {"QANAT_IMAGE": image, "ETCD_IMAGE": etcd}
    try:
        with ThreadPoolExecutor(len(BROKERS)) as pool:
            answers = {name: pool.submit(_answered_at, port) for name, port in BROKERS.items()}
            run(*words, "up", "-d", **variables)
        yield {name: answer.result() - _started_at(name) for name, answer in answers.items()}
    finally:
        run(*words, "down", "-v", **variables)


def _answered_at(port: int) -> float:
    _wait_for(port, "/health", 200)
    return time.time()


def _container(broker: str) -> str:
    return f"{PROJECT}_{broker}_1"


def _started_at(broker: str) -> float:
    """When its process was started, the engine's own work left out."""
    return int(run("podman", "inspect", _container(broker), "--format", "{{.State.StartedAt.UnixNano}}")) / 1e9


def _is_taken(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _post(path: str, body: object) -> int:
    wish = urllib.request.Request(
        f"http://localhost:8080{path}", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(wish) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as fault:
        return fault.code


@with_engine
def test_brokers_of_compose_answer_soon_and_stop_in_time(
    compose: dict[str, float], capsys: pytest.CaptureFixture[str]
) -> None:
    """Medians: of all three at once, and of one that comes back to the others."""
    stops, returns = [], []
    for broker, port in BROKERS.items():
        _wait_for(port, "/health/restartable", 200)
        began = time.monotonic()
        run("podman", "stop", "-t", "60", _container(broker))
        stops.append(time.monotonic() - began)
        run("podman", "start", _container(broker))
        returns.append(_answered_at(port) - _started_at(broker))
    with capsys.disabled():
        sys.stdout.write(f"\nfirst answer {_shown(compose.values())}, after a stop {_shown(returns)}\n")
        sys.stdout.write(f"stop {_shown(stops)}\n")

    assert max(stops) <= EXIT_S
    assert statistics.median(returns) <= SOON_S
    assert statistics.median(compose.values()) <= SOON_S * len(BROKERS), "they share the cores while all start"


def _shown(seconds: Iterable[float]) -> str:
    found = sorted(seconds)
    return f"{statistics.median(found):.2f} s ({found[0]:.2f} to {found[-1]:.2f})"


@with_engine
def test_three_brokers_by_compose_serve_also_when_one_is_killed(compose: dict[str, float]) -> None:
    wish = {"name": "test-topic", "partitions": 10, "replication_factor": 3}
    deadline = time.monotonic() + FIRST_ANSWER_S
    while (status := _post("/api/v1/topics", wish)) == 400 and time.monotonic() < deadline:
        time.sleep(0.1)  # The brokers have not all found each other yet.
    assert status == 201
    bootstrap = "localhost:9092,localhost:9093,localhost:9094"
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for number in range(100):
        producer.produce("test-topic", str(number))
    assert producer.flush(60) == 0
    _wait_for(8081, "/health/restartable", 200)
    run("podman", "kill", _container("broker-3"))
    _wait_for(8081, "/health/restartable", 503)
    assert healthcheck.status(8081, "/health/ready") == 200
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "readers", "auto.offset.reset": "earliest"})
    consumer.subscribe(["test-topic"])
    found: set[bytes | None] = set()
    deadline = time.monotonic() + 60
    while len(found) < 100 and time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            found.add(message.value())
    consumer.close()
    assert len(found) == 100


@pytest.mark.skipif(os.getuid() != 0, reason="only root may chroot: the root file system is not tried")
def test_the_root_of_the_image_runs_python_without_anything_else(tmp_path: Path) -> None:
    packages = tmp_path / "packages" / "qanat" / "app"
    packages.mkdir(parents=True)
    (packages / "main.py").write_text("def main():\n    print('it runs')\n")
    root, programs = tmp_path / "root", ROOT / "deploy" / "image"
    python = os.path.realpath(sys.executable)
    run(python, str(programs / "make_root.py"), str(root), str(tmp_path / "packages"), str(programs))
    assert run("chroot", str(root), "/usr/bin/qanat", PYTHONPATH="/opt/qanat") == "it runs\n"
    modules = "import asyncio, ctypes, hashlib, json, socket, sqlite3, ssl, zlib, zoneinfo; print(ssl.OPENSSL_VERSION)"
    assert run("chroot", str(root), "/usr/bin/python3", "-c", modules).startswith("OpenSSL")
    assert not (root / "bin" / "sh").exists()
