"""Figures in which another system is better, taken from the results; reasons and plans by hand from plans.yaml."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import yaml

from bench.report.part_results import PartResult
from qanat.app.bench.report import number

PLANS = Path(__file__).with_name("plans.yaml")
HEADINGS = ("workload", "what", "behind", "Qanat", "theirs", "ratio", "why", "plan", "expected")
NO_PLAN = "no plan yet"
_TIE = 0.005
"""A difference that two decimals do not show does not count."""
_RATES = ("/s", "×")
_SYSTEMS = ("Apache Kafka", "Spark's connector", "slowest of")
"""What Qanat is compared with: systems, and its quiet runs where another client attacks it. A bare loop or an import is
a limit."""


class PlansUnreadableError(Exception):
    """plans.yaml has another form than it should."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Reason, plan and expected gain for workloads (`part/figure`, with * for any) whose text contains `about`."""

    workload: str
    reason: str
    plan: str
    expected: str
    about: str = ""

    def is_for(self, workload: str, what: str) -> bool:
        return fnmatchcase(workload, self.workload) and self.about in what


@dataclass(frozen=True, slots=True)
class Behind:
    """One figure in which another system is better."""

    workload: str
    what: str
    system: str
    unit: str
    ours: float
    theirs: float
    ratio: float
    plan: Plan | None = None

    @property
    def cells(self) -> tuple[str, ...]:
        columns = (self.plan.reason, self.plan.plan, self.plan.expected) if self.plan else (NO_PLAN, "", "")
        figures = (f"{number(self.ours)} {self.unit}", f"{number(self.theirs)} {self.unit}", f"{self.ratio:.2f}×")
        return (self.workload, self.what, self.system, *figures, *columns)


def read_plans(file: Path = PLANS) -> list[Plan]:
    try:
        return [Plan(**one) for one in yaml.safe_load(file.read_text()) or ()]
    except (TypeError, yaml.YAMLError) as fault:
        raise PlansUnreadableError(
            f"{file.name}: each entry has workload, reason, plan, expected and perhaps about; {fault}"
        ) from fault


def behind(kept: Mapping[str, PartResult], plans: Sequence[Plan]) -> list[Behind]:
    """All such figures, the worst first; of several plans the first that fits."""
    found = [
        Behind(*values, plan=next((one for one in plans if one.is_for(values[0], values[1])), None))
        for part in kept.values()
        for values in [*_of_rows(part), *_of_tables(part)]
    ]
    return sorted(found, key=lambda one: -_how_far(one.unit, one.ratio))


_Values = tuple[str, str, str, str, float, float, float]


def _of_rows(part: PartResult) -> Iterator[_Values]:
    for row in part.rows:
        if row.ratio is None or row.limit is None or not row.limit_is.startswith(_SYSTEMS):
            continue
        if _how_far(row.unit, row.ratio) > 1 + _TIE:
            name = f"{part.part}/{row.figure}"
            yield name, row.what, row.limit_is, row.unit, row.ours, row.limit, row.ratio


def _of_tables(part: PartResult) -> Iterator[_Values]:
    for table in part.found.get("tables", ()):
        for line in table["figures"]:
            ours = line["systems"].get("Qanat")
            for system, theirs in line["systems"].items():
                ratio = theirs["qanat_to_it"]
                if ours and ratio is not None and _how_far(line["unit"], ratio) > 1 + _TIE:
                    what = f"{line['what']} ({table['title'].partition(':')[0].lower()})"
                    name = f"{part.part}/{line['workload']}"
                    yield name, what, system, line["unit"], ours["median"], theirs["median"], ratio


def _how_far(unit: str, ratio: float) -> float:
    """How many times better the other is: rates should be high, everything else low."""
    return (1 / ratio if ratio else float("inf")) if unit.endswith(_RATES) else ratio
