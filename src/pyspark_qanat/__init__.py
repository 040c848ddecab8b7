"""Makes `format("qanat")` known to every Spark session: Spark looks for the `DefaultSource` of packages `pyspark_*`."""

from qanat.spark.source import QanatDataSource as DefaultSource

__all__ = ["DefaultSource"]
