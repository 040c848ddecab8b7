"""`qanat config`: settings of topics, brokers and groups.

- `get`              `qanat config get`: settings in force, with their sources
- `set`              `qanat config set`
- `config_requests`  DescribeConfigs and IncrementalAlterConfigs, also for `qanat topic alter`
"""
