"""Identity providers of a node: what is shared, what is warned of, and what is missing."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from qanat.app.node.oauth import IdentityProviders
from qanat.model.errors import InvalidSettingError
from qanat.security.settings import SecuritySettings

URL = "https://login.example/keys"


def settings(**more: Any) -> SecuritySettings:
    made = {"jwks_endpoint_url": URL, "expected_audience": "qanat", "expected_issuer": "x", **more}
    return SecuritySettings(**{f"sasl_oauthbearer_{name}": value for name, value in made.items()})


def warned(caplog: pytest.LogCaptureFixture, **more: Any) -> list[tuple[str, str]]:
    caplog.clear()
    IdentityProviders().mechanism(settings(**more))
    return [(record.getMessage(), getattr(record, "qanat_fields", {})["setting"]) for record in caplog.records]


def test_listeners_with_the_same_settings_share_their_keys() -> None:
    providers = IdentityProviders()
    first, second = providers.mechanism(settings()), providers.mechanism(settings())
    other = providers.mechanism(settings(expected_audience="other"))

    assert first.tokens is second.tokens
    assert first.tokens is not other.tokens


def test_settings_that_let_more_in_than_they_should_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    unchecked = "tokens are accepted without one of their checks"
    unprotected = "keys of the identity provider come unprotected over http"
    assert warned(caplog) == []
    assert warned(caplog, expected_audience=" ,") == [(unchecked, "sasl.oauthbearer.expected.audience")]
    assert warned(caplog, expected_issuer=None) == [(unchecked, "sasl.oauthbearer.expected.issuer")]
    for url in ("http://127.0.0.1:8080/keys", "http://localhost/keys", "http://[::1]/keys"):
        assert warned(caplog, jwks_endpoint_url=url) == []
    for url in ("http://login.example/keys", "http://10.0.0.7/keys"):
        assert warned(caplog, jwks_endpoint_url=url) == [(unprotected, "sasl.oauthbearer.jwks.endpoint.url")]


@pytest.mark.parametrize("package", ["jwt", "cryptography"])
def test_a_missing_package_is_named_with_the_extra_that_brings_it(
    monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    for module in ("qanat.adapters.oauth.jwks_tokens", "qanat.security.key_refresh", "qanat.security.bearer_tokens"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    for module in list(sys.modules):
        if module == package or module.startswith(f"{package}."):
            monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setitem(sys.modules, package, None)

    with pytest.raises(InvalidSettingError, match=rf"needs the package {package}: pip install 'qanat\[security\]'"):
        IdentityProviders().mechanism(settings())
