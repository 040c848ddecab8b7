from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests import fetching
from tests.fetching import Unavailable, fetch_once, run_began_at


class Registry:
    """Has a package or not, and counts who asks."""

    def __init__(self, package: Path, *, has_it: bool) -> None:
        self.package = package
        self.has_it = has_it
        self.asked = 0

    def fetch(self) -> None:
        self.asked += 1
        if not self.has_it:
            raise Unavailable("the registry does not answer")
        self.package.touch()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(fetching, "CACHE", tmp_path)
    return tmp_path


def test_what_is_here_is_not_fetched(cache: Path) -> None:
    registry = Registry(cache / "package", has_it=True)

    for _ in range(2):
        fetch_once("package", registry.package.exists, registry.fetch)

    assert registry.asked == 1


def test_a_failure_counts_until_the_run_is_over(cache: Path) -> None:
    registry = Registry(cache / "package", has_it=False)
    for _ in range(2):
        with pytest.raises(Unavailable, match="the registry does not answer"):
            fetch_once("package", registry.package.exists, registry.fetch)
    assert registry.asked == 1

    os.utime(cache / "package.failure", times=(0, run_began_at() - 1))
    registry.has_it = True
    fetch_once("package", registry.package.exists, registry.fetch)

    assert registry.asked == 2
    assert not (cache / "package.failure").exists()
