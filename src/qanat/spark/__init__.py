"""The Spark data source, the exactly-once sink and the pipelines. Nothing is here yet."""
