"""The first process of the image: settings for a broker in a container, then `qanat` itself.

    NODE_ID, BROKER_PORT, HTTP_PORT, DATA_DIR    as for any broker
    QANAT_*                                      any setting; what is set is never changed
    SECURITY=secured                             the default: TLS, SCRAM and ACLs, made at the first start in DATA_DIR
    SECURITY=open                                every client that reaches the ports is let in

Rule 1: a container listens on all addresses; ports that are not published are reached by its network alone.
Rule 2: it advertises `localhost`, by which clients of published ports reach it; other machines need
        QANAT_ADVERTISED_HOST_NAME. A broker of a cluster (QANAT_LISTENERS, QANAT_INTER_BROKER_PORT) names its own.
Rule 3: a broker is open only where SECURITY says so. Settings of one's own (QANAT_CONFIG, QANAT_LISTENERS, …) are
        left alone, and then the broker itself refuses listeners without authentication.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

SECURITY = "SECURITY"
CHOICES = ("secured", "open")
_OWN_SECURITY = ("QANAT_CONFIG", "QANAT_LISTENERS", "QANAT_LISTENER_SECURITY_PROTOCOL", "QANAT_SSL_KEYSTORE_LOCATION")
_CLUSTER = ("QANAT_CONFIG", "QANAT_LISTENERS", "QANAT_INTER_BROKER_PORT", "QANAT_ADVERTISED_LISTENERS")
_PORT = "9092"
_EX_CONFIG = 78


class WrongVariableError(Exception):
    """A variable that the image does not understand, in one sentence."""


def is_start(arguments: list[str]) -> bool:
    """Whether a broker is started; `podman run IMAGE topic list` is any other command."""
    return not arguments or arguments[0] == "start" or arguments[0].startswith("-")


def defaults(given: Mapping[str, str]) -> dict[str, str]:
    """Variables for a broker in a container, where they are not given."""
    wanted: dict[str, str] = {}
    if not _has(given, "QANAT_CONFIG"):
        wanted = {"DATA_DIR": "/data", "HTTP_PORT": "8080", "QANAT_HTTP_HOST_NAME": "0.0.0.0"}
    if not _has(given, "QANAT_CONFIG", "QANAT_LISTENERS"):
        wanted["QANAT_HOST_NAME"] = "0.0.0.0"
    if not _has(given, *_CLUSTER):
        wanted["QANAT_ADVERTISED_HOST_NAME"] = "localhost"
    if security_of(given) == "open":
        wanted["QANAT_ALLOW_UNAUTHENTICATED_CLIENTS"] = "true"
    ours = {"DATA_DIR": "QANAT_DATA_DIR", "HTTP_PORT": "QANAT_HTTP_PORT"}
    return {name: value for name, value in wanted.items() if not _has(given, name, ours.get(name, name))}


def security_of(given: Mapping[str, str]) -> str:
    """`secured`, `open`, or `own` where settings of one's own decide; raises `WrongVariableError`."""
    said = given.get(SECURITY, "")
    if said not in ("", *CHOICES):
        raise WrongVariableError(f"{SECURITY}={said}: write secured (TLS, SCRAM and ACLs) or open (no protection)")
    if said == "open":
        return "open"
    return "own" if _has(given, *_OWN_SECURITY) else "secured"


def securing(given: Mapping[str, str]) -> tuple[Path, list[str]]:
    """The settings file of a secured broker, and the command that makes it."""
    folder = given.get("QANAT_DATA_DIR") or given["DATA_DIR"]
    port = given.get("QANAT_PORT") or given.get("BROKER_PORT") or _PORT
    host = given.get("QANAT_ADVERTISED_HOST_NAME") or "localhost"
    words = ["secure", "init", "--data-dir", folder, "--host", host, "--port", port]
    return Path(folder) / "security" / "broker.yaml", words


def main() -> None:
    """Prepare the environment, then run the command in this process."""
    import os

    arguments = sys.argv[1:]
    try:
        if is_start(arguments):
            _prepare(os.environ)  # type: ignore[arg-type]
            arguments = arguments if arguments[:1] == ["start"] else ["start", *arguments]
    except WrongVariableError as fault:
        print(fault, file=sys.stderr)
        sys.exit(_EX_CONFIG)
    from qanat.app.main import main as qanat

    sys.argv = ["qanat", *arguments]
    qanat()


def _prepare(environment: dict[str, str]) -> None:
    security = security_of(environment)
    environment.update(defaults(environment))
    environment.pop(SECURITY, None)
    if security == "open":
        print("SECURITY=open: every client that reaches the ports is let in", file=sys.stderr, flush=True)
    elif security == "secured":
        config, words = securing(environment)
        if not config.exists():
            from qanat.app.main import run

            code = run(words)
            if code:
                sys.exit(code)
        environment["QANAT_CONFIG"] = str(config)


def _has(given: Mapping[str, str], *names: str) -> bool:
    return any(given.get(name) for name in names)


if __name__ == "__main__":
    main()
