"""The support bundle: one archive of what the console asks a broker for, without secrets.

    manifest.json   what made it, of which broker, when, and what was left out
    answers.json    answers of the HTTP API by their path: what the console shows when it opens the bundle
    metrics-1.txt, metrics-2.txt   the metrics, some seconds apart
    log-1.txt …     the ends of the given logs

Rule: records are never in it, nor their keys and headers, nor users and rules.
"""

from __future__ import annotations

import json
import zipfile
import zlib
from pathlib import Path
from typing import Any

from msgspec import Struct

from qanat.app.client.arguments import WrongArgumentError
from qanat.app.diagnosis.redaction import redacted, redacted_log

FORMAT = 1
_MANIFEST, _ANSWERS = "manifest.json", "answers.json"
_BYTES_MAX = 512 * 1024 * 1024
"""A larger document is not read: an archive may be made to fill memory."""


class StoredAnswer(Struct, frozen=True):
    """An answer of the API."""

    status: int
    document: Any


class Bundle(Struct, frozen=True):
    """What a bundle holds."""

    manifest: dict[str, Any]
    answers: dict[str, StoredAnswer]


def write_bundle(path: Path, bundle: Bundle, metrics: list[str], logs: list[str]) -> None:
    """Write the archive; every text in it is redacted here."""
    texts = {
        _MANIFEST: json.dumps({"format": FORMAT, **redacted(bundle.manifest)}, indent=2),
        _ANSWERS: json.dumps(
            {
                one: {"status": answer.status, "document": redacted(answer.document)}
                for one, answer in bundle.answers.items()
            },
            indent=1,
        ),
    }
    texts |= {f"metrics-{number}.txt": redacted_log(text) for number, text in enumerate(metrics, 1)}
    texts |= {f"log-{number}.txt": redacted_log(text) for number, text in enumerate(logs, 1)}
    try:
        with zipfile.ZipFile(path, "x", zipfile.ZIP_DEFLATED) as archive:
            for name, text in texts.items():
                archive.writestr(name, text)
    except FileExistsError:
        raise WrongArgumentError(f"{path} is there already: name another file with --to") from None
    except OSError as fault:
        raise WrongArgumentError(f"{path} cannot be written: {fault.strerror or fault}") from None


def read_bundle(path: Path) -> Bundle:
    """Read an archive; a file that is none gets one sentence."""
    try:
        with zipfile.ZipFile(path) as archive:
            manifest, answers = (_document(archive, name) for name in (_MANIFEST, _ANSWERS))
    except OSError as fault:
        raise WrongArgumentError(f"{path} cannot be read: {fault.strerror or fault}") from None
    except (zipfile.BadZipFile, KeyError, ValueError, NotImplementedError, RuntimeError, EOFError, zlib.error):
        raise WrongArgumentError(f"{path} is no bundle, or a damaged one: `qanat bundle` makes one") from None
    is_sound = isinstance(manifest, dict) and isinstance(answers, dict)
    if not is_sound or manifest.get("format") != FORMAT:
        raise WrongArgumentError(f"{path} is a bundle of another version of Qanat: open it with that one")
    found = {
        name: StoredAnswer(one["status"], one.get("document"))
        for name, one in answers.items()
        if isinstance(one, dict) and isinstance(one.get("status"), int)
    }
    return Bundle(manifest, found)


def _document(archive: zipfile.ZipFile, name: str) -> Any:
    if archive.getinfo(name).file_size > _BYTES_MAX:
        raise ValueError(f"{name} is too large")
    return json.loads(archive.read(name))
