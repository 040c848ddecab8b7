"""`qanat bundle`: one archive for whoever helps, without secrets, which the console opens offline."""

from __future__ import annotations

import base64
import ssl
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from qanat import __version__
from qanat.app.client.arguments import WrongArgumentError
from qanat.app.diagnosis.bundle_answers import NO_ANSWER, BrokerApi, NoAnswerError, answer_or_fault, collect
from qanat.app.diagnosis.bundle_file import Bundle, write_bundle

USUAL = "http://127.0.0.1:8080"
SECONDS_MAX = 60
_DETAILS_S = _DIAGNOSIS_S = 15.0
_LOG_BYTES = 2 * 1024 * 1024


def bundle(
    address: str = USUAL,
    /,
    *,
    to: Annotated[Path | None, Parameter(name=["--to", "-t"])] = None,
    seconds: Annotated[float, Parameter(name=["--seconds", "-s"])] = 10.0,
    log: Annotated[list[Path] | None, Parameter(negative="")] = None,
    ca: Path | None = None,
    credentials: Path | None = None,
) -> None:
    """Pack what a cluster shows of itself into one archive, without secrets.

        qanat bundle http://127.0.0.1:8080 --to problem.zip --log /var/log/qanat.log
        qanat console --bundle problem.zip

    It holds settings, metadata, offsets, lag, a diagnosis, two looks at the metrics, and the ends of the logs that are
    named. Passwords, keys and tokens are hidden; records, their keys and headers, users and rules are never in it.

    Parameters
    ----------
    address:
        HTTP address of a broker: http:// or https://, name and port.
    to:
        The archive; qanat-bundle-TIME.zip in this folder where it is not given.
    seconds:
        How long to watch for the diagnosis and between the two looks at the metrics.
    log:
        A broker's log, as often as there are; the last 2 MiB of it are taken.
    ca:
        Certificates (PEM) that the broker's is checked against, where it is not from a public authority.
    credentials:
        A file with `user:password` or an API key, where the broker asks for a sign-in.
    """
    if not 1 <= seconds <= SECONDS_MAX:
        raise WrongArgumentError(f"--seconds {seconds:g}: write seconds, from 1 to {SECONDS_MAX}")
    made = datetime.now(UTC)
    path = to or Path(f"qanat-bundle-{made:%Y%m%d-%H%M%S}.zip")
    if path.exists():
        raise WrongArgumentError(f"{path} is there already: name another file with --to")
    logs = [_end_of(one) for one in log or ()]
    api = BrokerApi(address, _certificates(ca), _authorization(credentials))
    api.answer("/api/v1/whoami")  # Whether a broker is there, and whom it admits.
    metrics = [_metrics(api)]
    answer_or_fault(api, "/api/v1/diagnosis", time.monotonic() + _DIAGNOSIS_S)  # Brokers are watched from now on.
    began = time.monotonic()
    answers, left_out = collect(api, began + _DETAILS_S)
    time.sleep(max(0.0, began + seconds - time.monotonic()))
    until = time.monotonic() + _DIAGNOSIS_S
    answers["/api/v1/diagnosis"] = answer_or_fault(api, f"/api/v1/diagnosis?seconds={int(seconds)}", until)
    metrics.append(_metrics(api))
    failed = sum(one.status == NO_ANSWER for one in answers.values())
    manifest = {
        "made_by": f"qanat {__version__}",
        "made_at": made.isoformat(timespec="seconds"),
        "address": address,
        "seconds": seconds,
        "answers": len(answers),
        "left_out": left_out,
        "failed": failed,
    }
    write_bundle(path, Bundle(manifest, answers), metrics, logs)
    late = f"; {left_out} details were left out, because time ran out" if left_out else ""
    late += f"; {failed} requests had no answer in time" if failed else ""
    print(f"wrote {path}: {len(answers)} answers, {path.stat().st_size:,} bytes{late}")
    print(f"look at it: qanat console --bundle {path}")


def _metrics(api: BrokerApi) -> str:
    try:
        status, body = api.get("/metrics")
    except NoAnswerError as fault:
        return f"# {fault}\n"
    return body.decode("utf-8", "replace") if status == 200 else f"# /metrics answered {status}\n"


def _certificates(ca: Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=None if ca is None else str(ca))
    except (OSError, ssl.SSLError) as fault:
        raise WrongArgumentError(f"--ca {ca}: cannot be read as certificates: {fault}") from None


def _authorization(credentials: Path | None) -> str | None:
    if credentials is None:
        return None
    try:
        text = credentials.read_text().strip()
    except (OSError, UnicodeDecodeError) as fault:
        raise WrongArgumentError(f"--credentials {credentials}: cannot be read: {fault}") from None
    if not text or "\n" in text:
        raise WrongArgumentError(f"--credentials {credentials}: write one line, `user:password` or an API key")
    return f"Basic {base64.b64encode(text.encode()).decode()}" if ":" in text else f"Bearer {text}"


def _end_of(path: Path) -> str:
    """The end of a log."""
    try:
        with path.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - _LOG_BYTES))
            return file.read().decode("utf-8", "replace")
    except OSError as fault:
        raise WrongArgumentError(f"--log {path}: cannot be read: {fault.strerror or fault}") from None
