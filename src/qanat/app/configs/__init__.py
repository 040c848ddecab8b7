"""`qanat config`: settings of topics, brokers and groups.

- `get`              `qanat config get`: settings in force, with their sources
- `set`              `qanat config set`
- `check`            `qanat config check`: a broker's settings without starting it
- `explain`          `qanat config explain`: one setting of a broker
- `config_requests`  DescribeConfigs and IncrementalAlterConfigs, also for `qanat topic alter`
"""
