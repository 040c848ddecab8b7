"""Checks of a set-up's security: listeners, authentication, authorization, files, certificates.

They look at the settings; no broker need run. Each finding has its remedy, as a command or a
setting.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from shlex import quote

from qanat.app.rules.finding import Finding
from qanat.app.settings.listener_plan import ListenerPlan, PlannedListener
from qanat.security.certificates import InvalidCertificateError, certificates_in
from qanat.security.settings import SecuritySettings

EXPIRES_SOON_DAYS = 30
SUPER_USERS_MANY = 5
_DAY_S = 86_400
_OTHERS = 0o007
_GROUP_OR_OTHERS = 0o077
_ANONYMOUS = "User:ANONYMOUS"


def check_listeners(plan: ListenerPlan) -> Finding:
    """Which clients each listener lets in, and whether what it carries is encrypted."""
    seen = ", ".join(f"{one.name} {one.protocol} on {one.host}" for one in plan.all)
    open_ones = [one for one in plan.all if not one.requires_authentication and not one.is_loopback]
    if open_ones:
        advice = "; ".join(map(_protecting, open_ones))
        return Finding("listeners", "fail", f"{_names(open_ones)} lets in every client that reaches it", advice)
    clear = [one for one in plan.all if one.has_sasl and not one.has_tls and not one.is_loopback]
    if clear:
        advice = f"qanat secure init makes certificates; then {_protecting(clear[0])}"
        return Finding("listeners", "warn", f"{_names(clear)} is not encrypted beyond this machine", advice)
    return Finding("listeners", "ok", seen)


def check_authentication(plan: ListenerPlan) -> Finding:
    """Whether clients of this machine have to authenticate."""
    open_ones = [one for one in plan.clients if not one.requires_authentication]
    if open_ones:
        advice = "Fine for one user's own machine; else: qanat secure init"
        return Finding("authentication", "warn", f"{_names(open_ones)} lets in every user of this machine", advice)
    return Finding("authentication", "ok", "required of every client")


def check_authorizer(plan: ListenerPlan, settings: SecuritySettings, *, is_needed: bool = False) -> Finding:
    """Whether users may do only what rules allow; `is_needed` also where there are no users."""
    if not settings.authorizer_class_name:
        if not is_needed and not any(one.requires_authentication for one in plan.clients):
            return Finding("authorization", "ok", "no users, no rules")
        advice = "-X authorizer.class.name=StandardAuthorizer -X super.users=User:admin"
        return Finding("authorization", "warn", "every user may do everything", advice)
    if settings.allow_everyone_if_no_acl_found:
        advice = "-X allow.everyone.if.no.acl.found=false"
        return Finding("authorization", "warn", "a resource that no rule names is open to every user", advice)
    if settings.authorizer_dry_run:
        advice = "qanat acl suggest prints the missing rules; then -X authorizer.dry.run=false"
        return Finding("authorization", "warn", "a dry run: what no rule allows is let through", advice)
    return Finding("authorization", "ok", settings.authorizer_class_name)


def check_super_users(settings: SecuritySettings) -> Finding:
    """Principals that no rule limits."""
    found = settings.super_principals
    seen = ", ".join(found) or "none"
    if not settings.authorizer_class_name:
        return Finding("super users", "ok", seen)
    if _ANONYMOUS in found:
        return Finding("super users", "fail", f"{_ANONYMOUS} may do everything", "-X super.users=User:admin")
    if not found:
        return Finding("super users", "warn", "none: no one can add rules", "-X super.users=User:admin")
    if len(found) > SUPER_USERS_MANY:
        advice = "Keep one or two; for the others: qanat acl add --principal NAME --operation all --cluster"
        return Finding("super users", "warn", f"{len(found)}, whom no rule limits", advice)
    return Finding("super users", "ok", seen)


def check_files(plan: ListenerPlan, data_dir: Path, *, has_users: bool) -> Finding:
    """Whether other users of the machine can read keys, passwords and verifiers."""
    paths = dict.fromkeys(_private_files(plan))
    wrong = [f"chmod 600 {quote(path)}" for path in paths if _mode(Path(path)) & _OTHERS]
    is_shown = has_users and _mode(data_dir) & _GROUP_OR_OTHERS
    store = [path for path in sorted(data_dir.glob("metadata.db*")) if _mode(path) & _GROUP_OR_OTHERS]
    if wrong:
        return Finding("file modes", "fail", "others can read keys or passwords", "; ".join(wrong))
    if is_shown and store:
        advice = f"chmod 700 {quote(str(data_dir))}"
        return Finding("file modes", "warn", "others can read the verifiers of passwords in metadata.db", advice)
    return Finding("file modes", "ok", f"{len(paths)} private files")


def check_certificates(plan: ListenerPlan, data_dir: Path, now_s: float | None = None) -> Finding:
    """When the certificates of listeners expire."""
    now_s = time.time() if now_s is None else now_s
    ends: dict[str, float] = {}
    renew = f"qanat secure init --renew --data-dir {quote(str(data_dir))}, or renew it where it comes from"
    for one in plan.all:
        path = one.tls.ssl_keystore_location
        if not one.has_tls or path is None:
            continue
        try:
            ends[path] = min(certificate.not_after_s for certificate in certificates_in(Path(path).read_bytes()))
        except (OSError, InvalidCertificateError, ValueError) as fault:
            return Finding("certificates", "fail", f"{path} cannot be used: {fault}", renew)
    if not ends:
        return Finding("certificates", "ok", "none in files")
    path, end_s = min(ends.items(), key=lambda item: item[1])
    days = int((end_s - now_s) // _DAY_S)
    if end_s <= now_s:
        return Finding("certificates", "fail", f"{path} has expired", renew)
    if days < EXPIRES_SOON_DAYS:
        return Finding("certificates", "warn", f"{path} expires in {days} days", renew)
    return Finding("certificates", "ok", f"valid for {days} days")


def check_login_limits(plan: ListenerPlan, settings: SecuritySettings) -> Finding:
    """Whether guesses of passwords are limited."""
    if not any(one.has_sasl for one in plan.all):
        return Finding("login limits", "ok", "no passwords")
    budgets = {
        "login.failures.per.user": settings.login_failures_per_user,
        "login.failures.per.address": settings.login_failures_per_address,
    }
    off = [f"-X {name}=5" for name, value in budgets.items() if not value]
    if off:
        return Finding("login limits", "warn", "guesses are not limited", " ".join(off))
    return Finding("login limits", "ok", ", ".join(f"{name} {value}" for name, value in budgets.items()))


def _private_files(plan: ListenerPlan) -> Iterator[str]:
    for one in plan.all:
        security = one.security
        for path in (
            one.tls.ssl_keystore_location if one.has_tls else None,
            security.sasl_plain_credentials_file,
            security.inter_broker_credentials_file,
        ):
            if path is not None:
                yield path


def _mode(path: Path) -> int:
    try:
        return path.stat().st_mode & 0o777
    except OSError:
        return 0


def _names(listeners: Iterable[PlannedListener]) -> str:
    return ", ".join(one.name for one in listeners)


def _protecting(one: PlannedListener) -> str:
    """The settings that protect a listener."""
    if one.name == "METRICS":
        return "-X metrics.security.protocol=SSL -X listener.name.metrics.ssl.client.auth=required"
    if one.name == "HTTP":
        return "-X http.security.protocol=SASL_SSL"
    setting = "security.inter.broker.protocol" if one.is_inter_broker else "listener.security.protocol"
    return f"-X {setting}=SASL_SSL"
