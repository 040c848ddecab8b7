"""The APIs about the cluster: versions, brokers, log directories, elections, reassignments, features.

`api_versions`, `describe_cluster`, `describe_log_dirs`, `elect_leaders`, `alter_partition_reassignments`,
`list_partition_reassignments`, `update_features`; `get_replica_log_info` between brokers. `authorization` holds the
rule of those that need one operation on the cluster.
"""
