"""The result of a mutation run: a table, and a list of survivors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from verify.mutants.core import Key
from verify.mutants.mutations import Mutation
from verify.mutants.workshop import Outcome


class Verdict(NamedTuple):
    """A mutant and its result."""

    mutation: Mutation
    outcome: Outcome


def new_survivors(verdicts: Iterable[Verdict], accepted: Mapping[Key, str]) -> list[Mutation]:
    """Survivors that are not accepted."""
    return [one.mutation for one in verdicts if one.outcome is Outcome.SURVIVED and one.mutation.key not in accepted]


def killed_though_accepted(verdicts: Iterable[Verdict], accepted: Mapping[Key, str]) -> list[Mutation]:
    """Accepted mutants that a test kills by now: their reason no longer holds."""
    return [one.mutation for one in verdicts if one.outcome is Outcome.KILLED and one.mutation.key in accepted]


def table(verdicts: Sequence[Verdict], accepted: Mapping[Key, str]) -> list[str]:
    """One line for each module, and a total."""
    counts: dict[str, Counter[str]] = {}
    for mutation, outcome in verdicts:
        is_known = outcome is Outcome.SURVIVED and mutation.key in accepted
        counts.setdefault(mutation.module, Counter())["accepted" if is_known else outcome.value] += 1
    columns = ("killed", "timeout", "accepted", "survived")
    width = max((len(module) for module in counts), default=5)
    lines = [f"{'module':<{width}}  " + "  ".join(f"{column:>8}" for column in columns)]
    for module, count in [*sorted(counts.items()), ("all", sum(counts.values(), Counter()))]:
        lines.append(f"{module:<{width}}  " + "  ".join(f"{count[column]:>8}" for column in columns))
    return lines


def as_entry(mutation: Mutation) -> list[str]:
    """A survivor in the form of `accepted.yaml`, to which a reason is added."""
    return [
        f"    - in: {mutation.function}",
        f"      was: {_quoted(mutation.was)}",
        f"      becomes: {_quoted(mutation.becomes)}",
        *([f"      number: {mutation.number}"] if mutation.number > 1 else []),
    ]


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
