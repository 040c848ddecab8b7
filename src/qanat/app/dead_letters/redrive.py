"""`qanat dlq redrive`: dead letters back to the topics that they come from, each exactly once."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from qanat.app.client.arguments import WrongArgumentError
from qanat.app.client.consent import UNDECIDED, Consent
from qanat.app.client.target import HERE, Target, run
from qanat.app.dead_letters.letter_options import EVERY, LetterOptions
from qanat.app.terminal.listing import Output, Row, counted, print_done
from qanat.app.terminal.progress import count_progress
from qanat.connection.cluster import Cluster
from qanat.connection.dead_letters.redrive import Redrive, RedriveOptions, RedriveOutcome

_COLUMNS = ("topic", "redriven", "to", "passed_over", "done_before", "without_origin", "topic_gone", "complete", "done")


def redrive(
    topic: str,
    /,
    *,
    letters: LetterOptions = EVERY,
    by_key: Annotated[bool, Parameter(negative="")] = False,
    rate: int | None = None,
    number: Annotated[int | None, Parameter(name=["--number", "-n"])] = None,
    consent: Consent = UNDECIDED,
    output: Output = "table",
    target: Target = HERE,
) -> int:
    """Write dead letters back to where each comes from, exactly once. Without --yes, only say what would be done.

        qanat dlq redrive orders.dead --dry-run
        qanat dlq redrive orders.dead --error timeout --yes
        qanat dlq redrive orders.dead --origin orders --from @2h --rate 500 --yes

    A record returns to its partition with its key, value, headers and timestamp. Letters stay in the topic of dead
    letters, marked as redriven: the command can be killed and repeated, with the same flags or others, and no letter is
    redriven twice. One redrive of a topic runs at a time: a second one ends the first.

    Parameters
    ----------
    topic:
        The topic of dead letters.
    by_key:
        Let the hash of the key choose the partition, for topics whose partitions were added since.
    rate:
        At most so many letters a second.
    number:
        End after so many letters.
    output:
        A sentence for people, the others for programs.
    """
    if rate is not None and rate < 1:
        raise WrongArgumentError("--rate must be at least 1 letter a second")
    if number is not None and number < 1:
        raise WrongArgumentError("-n must be at least 1")
    is_dry_run = not consent.is_confirmed
    options = RedriveOptions(letters.selection(), by_key, rate, number, is_dry_run)

    async def work(cluster: Cluster) -> RedriveOutcome:
        ranges = await letters.ranges(cluster, topic)
        total = sum(end - first for first, end in ranges.values())
        with count_progress(f"redriving {topic}", total) as report_progress:
            return await Redrive(cluster, topic, options, report_progress).run(ranges)

    outcome = run(target, work)
    print_done([_row(topic, outcome, is_dry_run=is_dry_run)], _COLUMNS, output, _sentence)
    return 0 if consent.is_confirmed else consent.report_withheld("redriven")


def _row(topic: str, outcome: RedriveOutcome, *, is_dry_run: bool) -> Row:
    return {
        "topic": topic,
        "redriven": outcome.redriven,
        "to": " ".join(f"{name}={count}" for name, count in sorted(outcome.to.items())) or None,
        "passed_over": outcome.passed_over,
        "done_before": outcome.done_before,
        "without_origin": outcome.without_origin,
        "topic_gone": outcome.topic_gone,
        "complete": outcome.is_complete,
        "done": "would redrive" if is_dry_run else "redrove",
    }


def _sentence(row: Row) -> str:
    to = f" to {row['to']}" if row["to"] else ""
    rest = {
        "passed over by the flags": row["passed_over"],
        "redriven before": row["done_before"],
        "whose topic is gone": row["topic_gone"],
        "that do not say where they come from": row["without_origin"],
    }
    left = "".join(f"; {count:,} {what}" for what, count in rest.items() if isinstance(count, int) and count)
    return f"{row['done']} {counted(int(str(row['redriven'])), 'letter')} of {row['topic']}{to}{left}"
