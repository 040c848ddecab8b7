"""The console's files: what they are, what they weigh, how they are served."""

from __future__ import annotations

import gzip
import hashlib
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest
from tests.servers.http.serving import ServedNode, node_settings, served

from qanat.servers.http.console_files import console_files

ROOT = Path(str(files("qanat.console")))
PAGE_BYTES_MAX = 150_000
SCRIPTS = sorted(path for path in ROOT.rglob("*.js") if "vendor" not in path.parts)


@pytest.fixture(scope="module")
def node() -> Iterator[ServedNode]:
    with served(node_settings()) as running:
        yield running


def test_vendored_files_are_those_of_their_releases() -> None:
    text = (ROOT / "vendor" / "VENDORED.md").read_text()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| ")][2:]

    assert {row[0] for row in rows} == {
        path.name for path in (ROOT / "vendor").iterdir() if path.suffix in (".js", ".css")
    }
    for name, _, _, licence, digest in rows:
        assert hashlib.sha256((ROOT / "vendor" / name).read_bytes()).hexdigest() == digest, name
        licence_file = re.search(r"\((.+)\)", licence)
        assert licence_file is not None
        assert len((ROOT / "vendor" / licence_file[1]).read_text()) > 500


def test_everything_together_weighs_less_than_the_bar() -> None:
    sent = {
        name: len(file.compressed)
        for name, file in console_files().items()
        if name.endswith((".html", ".js", ".css", ".svg"))
    }

    assert sum(sent.values()) <= PAGE_BYTES_MAX, sent


def test_the_page_has_nothing_inline_and_nothing_from_elsewhere() -> None:
    page = (ROOT / "index.html").read_text()

    assert re.findall(r"<script(?![^>]*\bsrc=)", page) == []
    assert re.findall(r"<style|\sstyle=|\son\w+=", page) == []
    for path in [ROOT / "index.html", ROOT / "console.css", *SCRIPTS]:
        assert re.findall(r"(?:https?:)?//(?!www\.w3\.org)[\w.-]+\.\w+/", path.read_text()) == [], path


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_no_script_makes_markup_or_code_of_text(path: Path) -> None:
    words = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|setAttribute\(|javascript:"

    assert re.findall(words, path.read_text()) == []


def test_files_are_served_compressed_with_a_strict_policy_and_kept_by_their_tag(node: ServedNode) -> None:
    page = node.get("/console/", Accept_Encoding="gzip")
    policy = page.headers["content-security-policy"]

    assert b"<script" in gzip.decompress(page.body)
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "require-trusted-types-for 'script'" in policy
    assert "frame-ancestors 'none'" in policy
    assert page.headers["x-content-type-options"] == "nosniff"
    assert node.get("/console/", If_None_Match=page.headers["etag"]).status == 304
    assert node.get("/console").headers["location"] == "/console/"
    for path in ROOT.rglob("*.js"):
        answer = node.get(f"/console/{path.relative_to(ROOT)}")
        assert (answer.status, answer.body) == (200, path.read_bytes())
        assert answer.headers["content-type"].startswith("text/javascript")


@pytest.mark.parametrize(
    "name", ["__init__.py", "..%2Fcli.py", "vendor/../app.js", "nothing.js", "vendor/%2e%2e/app.js"]
)
def test_nothing_else_is_served(node: ServedNode, name: str) -> None:
    assert node.get(f"/console/{name}").status == 404


def test_without_a_sign_in_the_console_is_for_this_machine_only(node: ServedNode) -> None:
    from qanat.servers.http.console_files import _is_loopback

    assert [_is_loopback(host) for host in ("127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1")] == [True] * 4
    assert [_is_loopback(host) for host in ("10.0.0.1", "::ffff:10.0.0.1", "fe80::1", "", "x")] == [False] * 5
    assert node.get("/console/").status == 200


def test_nothing_of_the_console_is_imported_until_it_is_opened() -> None:
    program = "import sys, qanat.servers.http.listener; sys.exit('qanat.console' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=60).returncode == 0
