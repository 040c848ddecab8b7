"""kafkajs: pure JavaScript, old non-flexible versions only. npm fetches it into `.cache/`, once."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests.clients.remote import RemoteClient
from tests.fetching import CACHE, Unavailable, fetch_once
from tools.toolchains.node import have_node, need_packages

VERSION = "2.2.4"
FOLDER = CACHE / f"kafkajs-{VERSION}"
PROGRAM = Path(__file__).parent / "js" / "client.js"
LIMIT_SECONDS = 60


class KafkaJs(RemoteClient):
    codecs = ("none", "gzip")

    def __init__(self, address: str) -> None:
        folder = installed()
        package = json.loads((folder / "node_modules" / "kafkajs" / "package.json").read_text())
        super().__init__([have_node().program, str(PROGRAM), str(folder), address], package["version"])


def installed() -> Path:
    """The folder that has it, fetched first where it is missing."""
    package = FOLDER / "node_modules" / "kafkajs" / "package.json"
    fetch_once(FOLDER.name, package.exists, _install)
    return FOLDER


def _install() -> None:
    npm = have_node().npm
    need_packages(FOLDER.name)
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / "package.json").write_text('{"private": true}\n')
    command = [*npm, "install", "--no-audit", "--no-fund", "--loglevel=error", f"kafkajs@{VERSION}"]
    try:  # In the folder: with --prefix, npm does not read this machine's npmrc, which may name its certificates.
        done = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise Unavailable(f"npm did not bring it within {LIMIT_SECONDS} seconds") from None
    if done.returncode:
        raise Unavailable(f"npm cannot fetch it (exit code {done.returncode})")
