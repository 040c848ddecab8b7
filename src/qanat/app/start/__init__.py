"""`qanat start` and `qanat dev`: run a broker in this process, or several as workers.

- `start`        `qanat start` for the command line parser
- `dev`          `qanat dev`: a throw-away broker in memory
- `console`      `qanat console`: the web console of brokers elsewhere; `console_proxy` passes its requests on
- `quick_start`  a plain `qanat start` command line, read without the parser
- `workers`      `qanat start --workers N`: one broker per core, as one cluster
"""
