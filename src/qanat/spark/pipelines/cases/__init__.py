"""Test cases of pipelines: given rows, expected rows, compared without a broker.

- `case_file`    the cases of a file: YAML or JSON beside the pipeline (pure)
- `given_rows`   given rows in the columns of a source (pure)
- `comparison`   expected and computed rows, and their difference as text (pure)
- `case_run`     a pipeline in batch mode on given rows

Rule 1: only `case_run` uses PySpark.
"""
