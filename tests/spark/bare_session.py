"""A user's program, which prepares nothing: `python bare_session.py {classic,connect} BROKER TOPIC`."""

from __future__ import annotations

import sys

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

kind, broker, topic = sys.argv[1:]
builder = SparkSession.builder.config("spark.ui.enabled", "false")
builder = builder.remote("local[1]") if kind == "connect" else builder.master("local[1]")
spark = builder.getOrCreate()
at = {"kafka.bootstrap.servers": broker}
options = f"OPTIONS (`kafka.bootstrap.servers` '{broker}', subscribe '{topic}')"

rows = spark.range(5).selectExpr("cast(id as string) as value")
rows.write.format("qanat").options(**at).option("topic", topic).mode("append").save()
count = spark.read.format("qanat").options(**at).option("subscribe", topic).load().count()
sys.stdout.write(f"read {count}\n")
spark.sql(f"CREATE TEMPORARY VIEW seen USING qanat {options}")
sys.stdout.write(f"seen {spark.sql('SELECT * FROM seen').count()}\n")
try:
    spark.sql(f"CREATE TABLE kept USING qanat {options}")
except AnalysisException as refused:
    sys.stdout.write(str(refused).split("OptionError: ")[1].splitlines()[0] + "\n")
spark.stop()
