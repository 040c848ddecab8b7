"""The versions of PySpark that Qanat works with."""

from __future__ import annotations

from qanat.model.errors import QanatError

SUPPORTED = ("4.2", "4.3")


class UnsupportedSparkError(QanatError):
    """Another version of PySpark is installed."""


def require_supported(version: str) -> None:
    """Refuse a version of PySpark that nobody has tried with Qanat."""
    if ".".join(version.split(".")[:2]) not in SUPPORTED:
        raise UnsupportedSparkError(
            f"PySpark {version} is installed; Qanat works with {' and '.join(SUPPORTED)}: "
            "pip install 'pyspark[connect,sql]>=4.2,<4.4'"
        )
