"""The full report, its plots, the page of tuning and the JSON, composed of the parts' results."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.peers.report import as_markdown_table
from bench.report import plots, prose, sections, tuning, users_page
from bench.report.behind import Behind
from bench.report.headline import Judged, required
from bench.report.part_results import PartResult
from bench.report.parts import PARTS


@dataclass(frozen=True, slots=True)
class Report:
    """The contents of the page."""

    kept: Mapping[str, PartResult]
    judged: Sequence[Judged]
    behind: Sequence[Behind]

    @property
    def complaints(self) -> list[str]:
        """The reasons for which `--check` fails."""
        missed = [f"the floor does not hold: {one.line.what}" for one in self.judged if one.verdict == "NOT met"]
        unplanned = [
            f"behind {one.system} without a plan: {one.workload}, {one.what}" for one in self.behind if not one.plan
        ]
        return [*missed, *unplanned]


def write(report: Report, page: Path) -> list[Path]:
    """Write the page for users, and a folder of its name with everything else; returns the files."""
    folder = page.with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    pictures = plots.drawn(report.kept, report.judged, users_page.chosen(report.judged))
    for old in folder.glob("*.svg"):
        old.unlink()
    files = {folder / name: picture for name, (_, picture) in pictures.items()}
    titles = {name: what for name, (what, _) in pictures.items()}
    own = {name: what for name, what in titles.items() if name != plots.SUMMARY}
    files |= {
        folder / "report.md": as_markdown(report, own),
        folder / "tuning.md": tuning.guide(report.kept),
        folder / "report.json": as_json(report),
        page: _of_users(report, f"{folder.name}/{plots.SUMMARY}" if plots.SUMMARY in titles else ""),
    }
    for file, text in files.items():
        file.write_text(text)
    return [page, *(file for file in files if file != page)]


def as_markdown(report: Report, pictures: Mapping[str, str]) -> str:
    """The full report; `pictures` are the files of plots and their titles."""
    kept = report.kept
    parts = [
        prose.HEAD,
        *_warnings(kept),
        sections.headlines(report.judged, required(kept)),
        *([_pictures(pictures)] if pictures else []),
        sections.promises(kept),
        sections.by_flushing(kept, is_flushed=False),
        sections.by_flushing(kept, is_flushed=True),
        sections.protected(kept),
        sections.others(kept),
        sections.behind_others(report.behind),
        sections.where_time_goes(kept),
        _missing(kept),
        prose.HOW,
        prose.OTHERS,
        _machine(kept),
    ]
    return "\n".join(part for part in parts if part)


def _of_users(report: Report, picture: str) -> str:
    return users_page.composed(report.kept, report.judged, report.behind, picture, _warnings(report.kept))


def _warnings(kept: Mapping[str, PartResult]) -> list[str]:
    warnings = []
    if any(one.is_quick for one in kept.values()):
        quick = ", ".join(name for name, one in kept.items() if one.is_quick)
        warnings.append(f"**This was a quick run** ({quick}): fewer messages, and not all workloads.\n")
    if len({one.run for one in kept.values()}) > 1:
        runs = "; ".join(f"{name}: {one.run}" for name, one in kept.items())
        warnings.append(f"**The parts were not measured in one run**, but in runs that began at: {runs}.\n")
    return warnings


def _pictures(pictures: Mapping[str, str]) -> str:
    return "## Plots\n\n" + "\n\n".join(f"![{what}]({file})" for file, what in pictures.items()) + "\n"


def _missing(kept: Mapping[str, PartResult]) -> str:
    """What was not measured, and why: missing parts, and the notes of parts."""
    missing = [f"{part.title} ({part.name}): it is not part of this run." for part in PARTS if part.name not in kept]
    for name, one in kept.items():
        if one.reason:
            has = "Its results so far are above." if one.has_figures else "It had written nothing."
            missing.append(f"{name}: {one.reason}. {has}")
        missing += [f"{name}: {note}" for note in one.notes]
    lines = "\n".join(f"- {' '.join(line.split())}" for line in missing)
    return f"## Not measured, or not completely\n\n{lines or 'Nothing is missing.'}\n"


def _machine(kept: Mapping[str, PartResult]) -> str:
    """The machine, and the settings and duration of each part."""
    text = ["## Machine, versions, settings\n"]
    machines = [one.found["machine"] for one in kept.values() if one.found.get("machine")]
    if machines:
        text.append(as_markdown_table(("what", "value"), [[name, str(value)] for name, value in machines[0].items()]))
    for name, one in kept.items():
        facts = [["took", f"{one.seconds / 60:.1f} minutes, from a run that began {one.run}"]]
        facts += [[setting, str(value)] for setting, value in one.found.get("settings", {}).items()]
        load = one.found.get("machine", {}).get("load")
        facts += [["load", load]] if load else []
        text.append(f"### {name}\n\n" + as_markdown_table(("what", "value"), facts))
    return "\n".join(text)


def as_json(report: Report) -> str:
    document = {
        "headline": [
            {
                "workload": one.line.what,
                "floor": one.line.floor,
                "goal": one.line.goal,
                "comparison": one.line.comparison,
                "ratio": one.row.ratio if one.row else None,
                "verdict": one.verdict,
            }
            for one in report.judged
        ],
        "requirements": [
            {"part": one.part, "figure": one.row.figure, "what": one.what, "verdict": one.row.verdict}
            for one in required(report.kept)
        ],
        "behind": [asdict(one) for one in report.behind],
        "parts": {name: {**asdict(one), "found": one.judged_output} for name, one in report.kept.items()},
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"
