"""Mapping rules: Kafka's syntax, whole names only, and no surprise for a name that was made to confuse."""

from __future__ import annotations

import pytest

from qanat.model.errors import InvalidSettingError
from qanat.security.principal_mapping import PrincipalMapping

SERVICE = "CN=kafka-1,OU=services,O=Qanat,C=DE"


@pytest.mark.parametrize(
    ("rules", "name", "principal"),
    [
        ("DEFAULT", SERVICE, SERVICE),
        ("", SERVICE, SERVICE),
        ("RULE:^CN=(.*?),OU=services.*$/$1/", SERVICE, "kafka-1"),
        ("RULE:^CN=(.*?),OU=(.*?),O=(.*?),C=(.*?)$/$1@$2.$4/L", SERVICE, "kafka-1@services.de"),
        ("RULE:^CN=(.*?),.*$/$1/U", SERVICE, "KAFKA-1"),
        ("RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L", "CN=Duke,OU=x", "duke"),
        ("RULE:^CN=([^,]+),OU=other.*$/$1/, DEFAULT", SERVICE, SERVICE),
        ("RULE:^cn=(.*)$/$1/,RULE:^CN=([^,]*).*$/second $1/", SERVICE, "second kafka-1"),
        ("RULE:.*/fixed/", SERVICE, "fixed"),
        (r"RULE:^CN=([^,]*).*$/a\/b $1 \$2/", SERVICE, "a/b kafka-1 $2"),
        (r"RULE:^CN=([^,]*),OU=a\/b$/$1/", "CN=x,OU=a/b", "x"),
        ("RULE:^CN=(a)?(.*)$/$1-$2/", "CN=b", "-b"),
    ],
)
def test_the_first_rule_that_matches_decides(rules: str, name: str, principal: str) -> None:
    assert PrincipalMapping(rules).name_of(name) == principal


@pytest.mark.parametrize(
    ("rules", "name"),
    [
        ("RULE:CN=admin/admin/", "CN=admin,OU=guests"),
        ("RULE:CN=admin/admin/", "OU=CN\\=admin"),
        ("RULE:CN=admin/admin/", "OU=x,CN=admin"),
        ("RULE:^CN=([a-z]+)$/$1/", "CN=admin\\00.example.org"),
        ("RULE:^CN=([a-z]+),OU=ops$/$1/", "CN=admin\\,OU\\=ops"),
        ("RULE:^CN=([a-z]+),OU=ops$/$1/", "CN=admin+OU=ops"),
        ("RULE:^CN=([a-z]+),OU=ops$/$1/", "OU=ops,CN=admin"),
        ("RULE:^CN=(.*)$/$1/", "CN=admin\nCN=x"),
        ("RULE:^CN=(x?).*$/$1/", "CN=admin"),
    ],
)
def test_a_name_made_to_confuse_has_no_principal(rules: str, name: str) -> None:
    """Without anchors, with escaped commas and NULs, with other RDNs, RDN orders or lines, or nothing that is left."""
    assert PrincipalMapping(rules).name_of(name) is None


def test_a_greedy_pattern_is_the_operators_own_choice_and_is_matched_in_linear_time() -> None:
    assert PrincipalMapping("RULE:^(CN=.*)*x$/$1/").name_of("CN=" * 50_000) is None


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        ("RULE:^CN=(.*)$/$1", "is no rule"),
        ("RULE:^CN=(.*)$/$1/X", "is no rule"),
        ("RULE:^CN=(.*)$/$1/L DEFAULT", "is no rule"),
        ("default", "is no rule"),
        ("DEFAULT, nonsense", "'nonsense' is no rule"),
        ("RULE:^CN=(.*$/$1/", "is no pattern"),
        ("RULE:^CN=(.*)$/$2/", r"\$2 is no group"),
        ("RULE:^CN=(?=a)(.*)$/$1/", "is no pattern"),
    ],
)
def test_what_is_no_rule_is_refused_with_its_text(rules: str, reason: str) -> None:
    with pytest.raises(InvalidSettingError, match=reason):
        PrincipalMapping(rules)
