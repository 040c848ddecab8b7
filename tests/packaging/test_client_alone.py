"""`qanat-client` alone in an empty environment: it needs nothing of the broker and no package that it does not name."""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from importlib.metadata import Distribution, PathDistribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from tests.packaging.building import ROOT, build_wheel

from qanat.testing import EmbeddedBroker

PROGRAM = """
import sys
from qanat.client import Consumer, Producer

address = sys.argv[1]
with Producer(address) as producer:
    for number in range(100):
        producer.send("orders", b"%d" % number, key=b"key")
with Consumer(address, "orders", group="billing", auto_offset_reset="earliest") as consumer:
    read = []
    for record in consumer:
        read.append(int(record.value))
        if len(read) == 100:
            break
assert read == list(range(100)), read
try:
    import qanat.broker
except ModuleNotFoundError:
    print("read 100 records without a broker's package")
"""

EVERYTHING = """
import importlib, pkgutil, qanat, qanat.client

for module in pkgutil.walk_packages(qanat.__path__, "qanat."):
    importlib.import_module(module.name)
for name in qanat.client.__all__:
    getattr(qanat.client, name)
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with the client's wheel and the packages that it requires, and no other."""
    folder = tmp_path_factory.mktemp("alone")
    wheel, _ = build_wheel(ROOT / "qanat-client", folder / "dist", QANAT_PURE="1")
    venv.create(folder / "env", symlinks=True)
    (packages,) = (folder / "env" / "lib").glob("python*/site-packages")
    shutil.unpack_archive(wheel, packages, "zip")
    (installed,) = packages.glob("qanat_client-*.dist-info")
    copy_required(PathDistribution(installed), packages, set())
    return folder / "env" / "bin" / "python"


def copy_required(of: Distribution, packages: Path, copied: set[str]) -> None:
    """Copy what `of` requires from this environment: a test needs no network."""
    for line in of.requires or ():
        requirement = Requirement(line)
        if requirement.name in copied or (requirement.marker and not requirement.marker.evaluate({"extra": ""})):
            continue
        copied.add(requirement.name)
        found = distribution(requirement.name)
        for file in found.files or ():
            target = packages / str(file)
            if ".." not in file.parts and "__pycache__" not in file.parts:
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(str(file.locate()), target)
        copy_required(found, packages, copied)


def run(python: Path, program: str, *arguments: str) -> str:
    done = subprocess.run([python, "-I", "-c", program, *arguments], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_client_alone_produces_and_consumes(python: Path) -> None:
    with EmbeddedBroker() as broker:
        broker.create_topic("orders")
        printed = run(python, PROGRAM, broker.bootstrap_servers)

    assert printed == "read 100 records without a broker's package\n"


def test_every_module_of_the_client_can_be_imported_alone(python: Path) -> None:
    assert run(python, EVERYTHING) == ""


def test_the_environment_is_not_this_one(python: Path) -> None:
    assert str(python) != sys.executable
    assert run(python, "import sys; print(sys.prefix)").strip() == str(python.parents[1])
