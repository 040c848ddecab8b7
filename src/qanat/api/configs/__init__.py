"""The APIs about configurations of topics, brokers and groups.

`describe_configs`, `alter_configs`, `incremental_alter_configs`; `config_resources` checks their resources,
`authorization` decides who may. `dry_run_denials` is what a dry run of the authorizer has recorded,
`group_lag` what the collector of lag has found, `queue_records` what members of a queue hold.
"""
