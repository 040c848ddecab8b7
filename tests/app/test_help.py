"""Every command explains itself: with examples, each parameter, forms for programs, and the same cluster flags."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from cyclopts import App

from qanat.app.client.target import Target
from qanat.app.command_tree import build_app
from qanat.app.edge.registry_calls import RegistryTarget
from qanat.app.main import EXIT_USAGE, run

NO_ROWS = {
    *(
        "start",
        "dev",
        "console",
        "bundle",
        "run",
        "produce",
        "consume",
        "push produce",
        "cluster up",
        "cluster down",
        "cluster restart",
        "secure init",
    ),
    *("pipeline show", "pipeline run", "pipeline pack", "pipeline test", "pipeline check"),
    *("pipeline submit", "pipeline stop", "pipeline restart"),
    *("profile set", "profile use", "profile delete", "completion", "metrics rules", "metrics dashboards"),
    *("push subscribe", "push produce", "edge consumer", "edge test-registry", "edge acceptance"),
    "edge retire",
}
"""Commands whose output is not a listing: they serve, stream, print a file, or print one sentence."""


def commands(app: App, path: str = "") -> Iterator[tuple[str, Callable[..., Any]]]:
    """Every command that does something, by its whole name."""
    for name in app:
        if name.startswith("-"):
            continue
        found = app[name]
        if found.default_command is not None:
            yield f"{path}{name}", found.default_command
        else:
            yield from commands(found, f"{path}{name} ")


COMMANDS = dict(commands(build_app()))
each = pytest.mark.parametrize("name", COMMANDS)


def text_of(name: str) -> str:
    return inspect.getdoc(COMMANDS[name]) or ""


@each
def test_a_command_is_in_the_module_that_is_named_for_it(name: str) -> None:
    others = {"group seek": "reset", "edge test-registry": "feed_registry"}
    last = others.get(name, name.split()[-1])

    assert COMMANDS[name].__module__.rpartition(".")[2] == last.replace("-", "_")


@each
def test_help_has_an_example_that_can_be_typed(name: str) -> None:
    examples = [line for line in text_of(name).splitlines() if line.startswith("    ") and "qanat " in line]

    assert examples != []


@each
def test_every_parameter_is_explained(name: str) -> None:
    explained = text_of(name).partition("\nParameters\n---")[2]
    own = [
        one.name
        for one in inspect.signature(COMMANDS[name]).parameters.values()
        # What several commands share explains itself where it is defined; what has no name is in the text.
        if one.kind is not one.VAR_POSITIONAL
        and not hasattr(one.default, "__dataclass_fields__")
        and "help=" not in str(one.annotation)
    ]

    assert [one for one in own if f"{one}:\n" not in explained] == []


@each
def test_what_lists_or_changes_has_forms_for_programs(name: str) -> None:
    has_output = "output" in inspect.signature(COMMANDS[name]).parameters

    assert has_output is (name not in NO_ROWS)


@each
def test_every_command_of_a_cluster_takes_client_settings(name: str) -> None:
    """`Target` brings --bootstrap, --profile, --timeout, -X and --command-config together; a registry has its own."""
    parameters = inspect.signature(COMMANDS[name]).parameters
    kind = RegistryTarget if name.startswith("edge ") else Target

    assert ("target" in parameters) is any(isinstance(one.default, kind) for one in parameters.values())
    assert not {"bootstrap", "profile", "timeout"} & set(parameters) or name.startswith("profile ")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["topic", "lst"], 'Unknown command "lst". Did you mean "list"? Available commands: '),
        (["topic", "create"], 'Command "topic create" parameter topic requires an argument; see qanat topic create --'),
        (["topic", "create", "x", "-p", "abc"], 'Invalid value for -p: unable to convert "abc" into int; see qanat '),
        (["consume", "x", "--form", "y"], "Unknown option: --form. Did you mean --format?; see qanat consume --help"),
        (["config", "get", "topc", "x"], 'Invalid value "topc" for KIND. Choose from: '),
        (["produce", "a", "b"], "'b' is one argument too many; see qanat produce --help"),
        (["irrigate"], 'Unknown command "irrigate". Available commands: start, dev, '),
    ],
)
def test_a_line_that_is_wrong_is_one_sentence(
    capsys: pytest.CaptureFixture[str], arguments: list[str], expected: str
) -> None:
    code = run(arguments)
    printed = capsys.readouterr()

    assert (code, printed.out) == (EXIT_USAGE, "")
    assert printed.err.startswith(f"qanat: {expected}")
    assert printed.err.count("\n") == 1
