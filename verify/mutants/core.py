"""The two lists of the mutation run: which tests judge which module, and which survivors are accepted."""

from __future__ import annotations

from pathlib import Path

import yaml

from verify.mutants.mutations import Mutation, mutations_of

ROOT = Path(__file__).resolve().parents[2]
_HERE = Path(__file__).resolve().parent

Key = tuple[str, str, str, str, int]


def mapped_tests() -> dict[str, list[str]]:
    """Modules such as `qanat.log.recovery.log_recovery`, and the tests that judge each; the quickest come first."""
    content = yaml.safe_load((_HERE / "core.yaml").read_text())
    return {module: group["tests"] for group in content for module in group["modules"]}


def accepted() -> dict[Key, str]:
    """The reasons of accepted survivors, by key."""
    return read_accepted((_HERE / "accepted.yaml").read_text())


def read_accepted(text: str) -> dict[Key, str]:
    found: dict[Key, str] = {}
    for entry in yaml.safe_load(text) or []:
        for change in entry["mutants"]:
            number = change.get("number", 1)
            found[entry["module"], change["in"], change["was"], change["becomes"], number] = change["why"]
    return found


def path_of(module: str) -> Path:
    """The path of a module, from the root of the tree."""
    return Path("src", *module.split(".")).with_suffix(".py")


def mutants_in(module: str) -> list[Mutation]:
    return mutations_of(module, (ROOT / path_of(module)).read_text())
