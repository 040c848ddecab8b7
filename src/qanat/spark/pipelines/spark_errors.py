"""The reason of a Spark error in one sentence, without plans and stack traces."""

from __future__ import annotations

import re

from qanat.spark.pipelines.spark_faults import machine_fault
from qanat.spark.session import reason_of

_OWN = re.compile(r"\bqanat(?:\.\w+)+Error: (.+)")
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
    if (sentence := machine_fault(text)) is not None:
        return f"{sentence}; run it again, it continues where it was"
    if text.startswith(_FROM_JAVA):
        return reason_of(text)
    return text.strip().split("\n", 1)[0].split(" SQLSTATE:")[0]
