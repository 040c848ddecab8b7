"""Checks of what the metadata store holds of security: users, rules and API keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from shlex import quote

from qanat.app.acls.acl_options import command_of
from qanat.app.doctor.stored_security import StoredSecurity
from qanat.app.rules.finding import Finding
from qanat.security.acls import ANY_PRINCIPAL, Acl, Permission
from qanat.security.api_keys import START
from qanat.security.scram import ITERATIONS_MIN

_ANONYMOUS = "User:ANONYMOUS"


def check_stored(stored: StoredSecurity) -> Iterator[Finding]:
    """Users, rules and API keys of the metadata store."""
    weak = sorted({user for (user, _), count in stored.iterations.items() if count < ITERATIONS_MIN})
    if weak:
        advice = "; ".join(f"qanat user password {quote(user)}" for user in weak)
        yield Finding("users", "warn", f"fewer than {ITERATIONS_MIN} iterations: {', '.join(weak)}", advice)
    else:
        yield Finding("users", "ok", f"{len({user for user, _ in stored.iterations})} with SCRAM")
    yield _rules(stored.acls)
    endless = [START + identity for identity, key in sorted(stored.api_keys.items()) if not key.expires_ms]
    if endless:
        advice = f"qanat api-key remove {' '.join(endless)} --yes; then qanat api-key add with --expires"
        yield Finding("API keys", "warn", f"{len(endless)} never expire", advice)
    else:
        yield Finding("API keys", "ok", f"{len(stored.api_keys)}, all with an end")


def _rules(acls: Iterable[Acl]) -> Finding:
    rules = list(acls)
    wide = [one for one in rules if one.principal in (ANY_PRINCIPAL, _ANONYMOUS) and one.permission is Permission.ALLOW]
    if wide:
        advice = "; ".join(f"{command_of('remove', one)} --yes" for one in wide)
        return Finding("ACLs", "warn", f"{len(wide)} of {len(rules)} allow something to every client", advice)
    return Finding("ACLs", "ok", f"{len(rules)} rules")
