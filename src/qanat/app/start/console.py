"""`qanat console`: the web console of a cluster, wherever it runs, for the browser of this machine."""

from __future__ import annotations

import asyncio
import socket
import ssl
import sys
import webbrowser
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from cyclopts import Parameter

from qanat.app.client.arguments import WrongArgumentError
from qanat.app.diagnosis.bundle_file import Bundle, read_bundle

USUAL = "http://127.0.0.1:8080"


def console(
    address: str = USUAL,
    /,
    *,
    bundle: Path | None = None,
    port: int = 0,
    ca: Path | None = None,
    browser: Annotated[bool, Parameter(negative="--no-browser")] = False,
) -> int:
    """Serve the web console of a cluster to the browser of this machine, until it is stopped.

        qanat console https://broker-1.example:8080
        qanat console --bundle problem.zip

    A broker serves the same console itself, at /console. This is for brokers elsewhere that ask nobody to sign in, and
    for those behind a tunnel.

    Parameters
    ----------
    address:
        HTTP address of a broker: http:// or https://, name and port.
    bundle:
        An archive of `qanat bundle` in place of a broker: what it holds is shown, and nothing can be changed.
    port:
        Port of this machine; 0 takes a free one, which is printed.
    ca:
        Certificates (PEM) that the broker's is checked against, where it is not from a public authority.
    browser:
        Open the browser of this machine.
    """
    stored = None if bundle is None else read_bundle(bundle)
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/"):
        raise WrongArgumentError(f"{address} is no HTTP address of a broker: write http://broker:8080")
    try:
        certificates = ssl.create_default_context(cafile=None if ca is None else str(ca))
    except (OSError, ssl.SSLError) as fault:
        raise WrongArgumentError(f"--ca {ca}: cannot be read as certificates: {fault}") from None
    try:
        listening = socket.create_server(("127.0.0.1", port))
    except OSError as fault:
        raise WrongArgumentError(f"--port {port}: {fault.strerror}; choose another one") from None
    url = f"http://127.0.0.1:{listening.getsockname()[1]}/console/"
    print(f"The console of {bundle or address.rstrip('/')} is at {url} (stop with Ctrl-C)", file=sys.stdout, flush=True)
    if browser:
        webbrowser.open(url)
    return asyncio.run(_serve(f"{parts.scheme}://{parts.netloc}", listening, certificates, stored))


async def _serve(target: str, listening: socket.socket, certificates: ssl.SSLContext, stored: Bundle | None) -> int:
    from uvicorn import Config, Server

    from qanat.app.start.bundle_server import ConsoleBundle
    from qanat.app.start.console_proxy import ConsoleProxy

    config = Config(
        ConsoleProxy(target, certificates) if stored is None else ConsoleBundle(stored),
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        proxy_headers=False,
        ws="none",
        timeout_graceful_shutdown=1,
    )
    await Server(config).serve(sockets=[listening])
    return 0
