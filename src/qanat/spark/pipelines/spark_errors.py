"""The reason of a Spark error in one sentence, without plans and stack traces."""

from __future__ import annotations

import re

from qanat.spark.pipelines.spark_faults import machine_fault, text_of
from qanat.spark.session import reason_of

_OWN = re.compile(r"\bqanat(?:\.\w+)+Error: (.+)")
_RAISED = re.compile(r"^(?:[A-Za-z_]\w*\.)*([A-Za-z_]\w*: .+)", re.MULTILINE)
"""The last line of a Python traceback: the exception."""
_AT = re.compile(r'^ +File "([^"]+)", line (\d+), in ', re.MULTILINE)
_NOT_FITTING = re.compile(
    r"\[(?:STATE_STORE\w*(?:SCHEMA_NOT_COMPATIBLE|INCOMPATIB\w*|MISMATCH\w*)|STREAMING_STATEFUL_OPERATOR_NOT_MATCH\w*"
    r"|INVALID_\w*STATE_SCHEMA\w*)[.\w]*\] *(?P<reason>[^\n]*)"
    r"|There are \[\d+\] sources in the checkpoint offsets and now there are \[\d+\][^\n.]*"
)
"""Spark's words for the checkpoint of another query."""
_TRACEBACK = "Traceback (most recent call last):"
_FROM_JAVA = "An error occurred while calling"
"""Py4J's prefix of an exception that is not Spark's own, such as one of the file system."""


def spark_reason(fault: Exception) -> str:
    """Spark's message without plans and stack traces.

    >>> spark_reason(Exception("An error occurred while calling o1.start.\\n: java.io.IOException: no /x\\n\\tat a"))
    'no /x'
    """
    text = str(fault)
    own = _OWN.findall(text)
    if own:
        return str(own[-1]).split(" SQLSTATE:")[0]
    if (sentence := machine_fault(text_of(fault))) is not None:
        return f"{sentence}; run it again, it continues where it was"
    if (sentence := checkpoint_fault(text)) is not None:
        return sentence
    if _TRACEBACK in text:
        return _raised(text)
    if text.startswith(_FROM_JAVA):
        return reason_of(text)
    return text.strip().split("\n", 1)[0].split(" SQLSTATE:")[0]


def checkpoint_fault(text: str) -> str | None:
    """Spark's refusal to continue from a checkpoint, as a sentence with the remedy.

    >>> checkpoint_fault("x\\n[STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE] Provided key schema differs. SQLSTATE: 42")
    'the query does not fit its checkpoint, and nothing was changed: Provided key schema differs. Undo the change, or \
begin a new checkpoint at the old offsets, without the old state: --checkpoint NEW --from-checkpoint OLD'
    """
    found = _NOT_FITTING.search(text)
    if found is None:
        return None
    reason = (found["reason"] or found[0]).split(" SQLSTATE:")[0].strip().rstrip(".")
    return (
        f"the query does not fit its checkpoint, and nothing was changed: {reason}. Undo the change, or begin a new "
        "checkpoint at the old offsets, without the old state: --checkpoint NEW --from-checkpoint OLD"
    )


def _raised(text: str) -> str:
    """The exception of a user's Python code, with the file and line where it left it.

    >>> _raised("Job aborted\\n" + _TRACEBACK + '\\n  File "/x/pyspark/worker.py", line 9, in main\\n'
    ...         '  File "/jobs/shop.py", line 3, in score\\n    f()\\nValueError: too much\\n\\tat org.apache')
    'ValueError: too much (shop.py line 3)'
    """
    traceback = text.rpartition(_TRACEBACK)[2]
    raised = _RAISED.search(traceback)
    own = [(file, line) for file, line in _AT.findall(traceback) if "/pyspark/" not in file]
    if raised is None:
        return text.strip().split("\n", 1)[0]
    place = f" ({own[-1][0].rpartition('/')[2]} line {own[-1][1]})" if own else ""
    return f"{raised[1].split(' SQLSTATE:')[0]}{place}"
