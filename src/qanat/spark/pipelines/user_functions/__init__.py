"""Functions of users, which a pipeline names as `module:function`.

- `references`     a function found by its name, and its signature checked
- `by_value`       modules beside a pipeline, sent to Spark's processes with the functions
- `row_functions`  a function of one row, applied on executors; an error names step and record
- `python_steps`   steps in Python as data frames
- `python_sinks`   a function that gets each micro-batch

Rule 1: an error of a user's function is one sentence: pipeline, step, function, the exception, file and line.
Rule 2: only `by_value`, `python_steps` and `python_sinks` use PySpark, and import it when they are called.
"""
