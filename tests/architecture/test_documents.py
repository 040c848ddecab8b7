"""Pages name only packages, sources, targets, links and decisions that exist, and name all of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = sorted(path.parent.name for path in (ROOT / "src" / "qanat").glob("*/__init__.py"))
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
TARGETS = set(re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE))


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("package", PACKAGES)
def test_the_architecture_page_names_every_package(package: str) -> None:
    assert re.search(rf"^\| `{package}`", (ROOT / "ARCHITECTURE.md").read_text(), re.MULTILINE)


def test_every_package_holds_code() -> None:
    def code(package: str) -> list[Path]:
        folder = ROOT / "src" / "qanat" / package
        return [*folder.rglob("*.py"), *folder.rglob("*.js")]

    assert [package for package in PACKAGES if len(code(package)) == 1] == []


def test_the_architecture_page_names_only_packages_that_exist() -> None:
    table = (ROOT / "ARCHITECTURE.md").read_text().partition("| package | owns |")[2].partition("\n\n")[0]

    assert sorted(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == PACKAGES


def test_the_architecture_page_draws_the_layers_that_are_enforced() -> None:
    import tomllib

    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = [contract["layers"] for contract in contracts if contract["id"] == "layers"]

    assert "\n".join(layers) in (ROOT / "ARCHITECTURE.md").read_text()


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_page_links_only_to_what_exists(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    links = [link.split("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link]

    assert [link for link in links if link and not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_page_names_only_sources_that_exist(page: Path) -> None:
    mentioned = re.findall(r"`((?:src|tests|tools|bench|verify|demo)/[\w/.-]+)`", page.read_text())

    assert [path for path in mentioned if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_page_names_only_tests_that_exist(page: Path) -> None:
    """`tests/file.py::test_name`."""
    mentioned = re.findall(r"`(tests/[\w/.-]+\.py)::(test_\w+)`", page.read_text())

    assert [
        (path, test)
        for path, test in mentioned
        if not (ROOT / path).exists() or f"def {test}(" not in (ROOT / path).read_text()
    ] == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_page_names_only_modules_that_exist(page: Path) -> None:
    """`api/records/produce`, with or without `.py` or the name of something inside."""
    mentioned = re.findall(rf"`((?:{'|'.join(PACKAGES)})/[\w/]+)(?:\.\w+)?`", page.read_text())
    modules = {path: ROOT / "src" / "qanat" / path for path in mentioned}

    assert [
        path for path, module in modules.items() if not module.with_suffix(".py").exists() and not module.is_dir()
    ] == []


@pytest.mark.parametrize("page", [*PAGES, ROOT / ".ci" / "run"], ids=name)
def test_a_page_names_only_targets_that_exist(page: Path) -> None:
    text = page.read_text()
    mentioned = set(re.findall(r"`make ([a-z-]+)", text)) | set(re.findall(r"^make ([a-z-]+)", text, re.MULTILINE))

    assert mentioned <= TARGETS


def test_the_continuous_integration_runs_the_commands_of_the_readme() -> None:
    commands = re.findall(r"^make ([\w-]+)$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    readme = (ROOT / "README.md").read_text()

    assert commands == ["check", "test", "test-data", "demo"]
    assert [command for command in commands if f"make {command} " not in readme] == []


def test_every_decision_is_in_the_index_and_in_the_site() -> None:
    folder = ROOT / "docs" / "decisions"
    index, site = (folder / "index.md").read_text(), (ROOT / "mkdocs.yml").read_text()
    pages = [page.name for page in sorted(folder.glob("[0-9]*.md"))]

    assert [page for page in pages if f"({page})" not in index or f"decisions/{page}" not in site] == []


def test_every_runtime_dependency_has_its_reason() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    reasons = (ROOT / "docs" / "decisions" / "0004-dependencies.md").read_text()
    names = [re.split(r"[<>=;\[ ]", dependency)[0] for dependency in project["dependencies"]]

    assert [dependency for dependency in names if f"| {dependency} |" not in reasons] == []
    assert [extra for extra in project["optional-dependencies"] if extra not in reasons] == []
