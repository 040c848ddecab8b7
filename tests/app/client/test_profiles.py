"""`qanat profile`, `--profile` and `QANAT_PROFILE`: the choice of a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.app.processes import qanat

NOBODY = "127.0.0.1:1"


def test_a_profile_is_set_used_listed_and_deleted(tmp_path: Path, broker_address: str) -> None:
    home = {"XDG_CONFIG_HOME": str(tmp_path)}
    first = qanat("profile", "set", "here", "-b", broker_address, **home)
    second = qanat("profile", "set", "nobody", "-b", NOBODY, "--timeout", "3", **home)
    in_use = qanat("topic", "list", **home)
    named = qanat("topic", "list", "--profile", "nobody", **home)
    switched = qanat("profile", "use", "nobody", **home)
    listed = qanat("profile", "list", "-o", "csv", **home).stdout.split()
    after = qanat("topic", "list", **home)
    deleted = qanat("profile", "delete", "nobody", **home)

    assert first.stdout == f"here is in use ({tmp_path}/qanat/config.yaml)\n"
    assert second.stdout == f"nobody is set ({tmp_path}/qanat/config.yaml)\n"
    assert (in_use.returncode, named.returncode, after.returncode) == (0, 1, 1)
    assert "cannot connect to 127.0.0.1:1" in named.stderr
    assert switched.stdout == "nobody is in use\n"
    assert listed == [
        "profile,in_use,bootstrap,timeout,settings",
        f"here,False,{broker_address},,",
        f"nobody,True,{NOBODY},3.0,",
    ]
    assert deleted.stdout == "deleted nobody\n"


def test_a_flag_goes_before_the_environment_and_that_before_the_file(tmp_path: Path, broker_address: str) -> None:
    (tmp_path / "qanat").mkdir()
    (tmp_path / "qanat" / "config.yaml").write_text(
        f"profile: nobody\nprofiles:\n  nobody: {{bootstrap: '{NOBODY}'}}\n  here: {{bootstrap: '{broker_address}'}}\n"
    )
    home = {"XDG_CONFIG_HOME": str(tmp_path)}
    variable = home | {"QANAT_BOOTSTRAP_SERVERS": NOBODY}

    assert qanat("topic", "list", **home).returncode == 1
    assert qanat("topic", "list", **home, QANAT_PROFILE="here").returncode == 0
    assert qanat("topic", "list", **variable, QANAT_PROFILE="here").returncode == 1
    assert qanat("topic", "list", "--profile", "here", **variable).returncode == 0
    assert qanat("topic", "list", "-b", broker_address, **variable).returncode == 0


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("profiles: {a: {bootstrap: x}}\n", "there is no profile b (--profile); there are a; add it: "),
        ("profiles: {bb: {bootstrap: x}}\n", "there is no profile b (--profile); did you mean bb?"),
        ("", "there is no profile b (--profile); there are none; add it: "),
        ("- 1\n", "{path} should hold profiles: "),
        ("profiles: [1]\n", "{path} should hold profiles: "),
        ("profile: {\n", "{path} is not YAML: "),
        ("profil: b\n", "{path}: unknown setting 'profil'; there are profile and profiles"),
        ("profiles: {b: 5}\n", "{path}: profile b should read {{bootstrap: host:port}}"),
        ("profiles: {b: {}}\n", "{path}: profile b needs a bootstrap, host:port"),
        ("profiles: {b: {bootstrap: x, time: 5}}\n", "{path}: profile b has an unknown setting 'time'"),
        ("profiles: {b: {bootstrap: x, timeout: soon}}\n", "{path}: the timeout of profile b is 'soon', not seconds"),
        ("profiles: {b: {bootstrap: 'x:y'}}\n", "profile b: x:y: 'x:y' is no address: write host:port"),
    ],
)
def test_a_file_that_says_nothing_sensible_is_one_sentence(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "qanat" / "config.yaml"
    path.parent.mkdir()
    path.write_text(content)
    result = qanat("topic", "list", "--profile", "b", XDG_CONFIG_HOME=str(tmp_path))

    assert result.returncode == 1
    assert result.stderr.startswith(f"qanat: {message.format(path=path)}")
    assert result.stderr.count("\n") == 1
