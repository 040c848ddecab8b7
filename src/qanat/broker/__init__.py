"""The asyncio application that hosts partitions and coordinators, waits and supervises.

- `settings`           what a broker may be told
- `broker`             the partitions it hosts, the picture of its cluster, what doors ask of both
- `local_replicas`            which partitions we host, and what becomes of logs that nobody knows
- `metadata`           the picture of the cluster, kept true by watching the store
- `membership`         our registration in the cluster, and its lease
- `controller_loop`        the controller's part, played by one broker at a time
- `auto_rebalance`          what the controller moves by itself
- `failure_detection`  brokers whose process has ended: two witnesses evict them before their lease runs out
- `confirmed_lease`    whether our lease was renewed lately enough to act in its name
- `replica_logs`       what our own logs hold, for whoever elects
- `replica_proofs`     what the controller has had brokers prove of their logs before it elects
- `replica_faults`     our logs that are damaged or offline, reported to the cluster
- `storage_faults`     what becomes of faults of our disk
- `throttling`         how fast copies may catch up
- `follower_session`   what a follower last asked its leader for
- `followers`          copies of partitions that others lead, kept up by fetching
- `follower_fetching`       consumers that read from a follower in their rack
- `isr_changes`       followers' progress, and changes of the in-sync sets
- `peers`              questions to other brokers
- `partition`          the leader's side of one partition: appends, reads, who waits for either
- `fetching`           reads of many partitions at once, and waiting where that is too little
- `fetch_sessions`     consumers that name only what changed
- `group_coordinator`  the shell around the groups' ledger
- `transaction_coordinator`  the shell around the transactions' ledger
- `transaction_markers`      markers on their way into partitions, whoever asks for them
- `transaction_verification`         whether a transactional write belongs to an open transaction
- `coordination`       coordinators take over internal partitions, and let them go
- `hosted_shard`       what every coordinator's shell does: append, wait, answer; tick; end
- `share_coordinator`, `remote_share_state`  who keeps the state of share partitions: this broker, or another
- `share_partition`, `share_partitions`  a share partition at work, and all that this broker leads
- `share_fetching`, `share_sessions`     records for members of share groups, and who asks for which
- `share_policies`     what holds for the deliveries of each share group
- `share_administration` how far share groups are, for those who look, move, or delete them
- `dead_letters`       records that a share group has given up, on their way to another topic
- `consume_retention`        `cleanup.policy=consume`: records go once share groups are past them
- `internal_topic`     a topic in which a coordinator keeps its state
- `unwaited`           work that goes on to its end when its client has gone
- `yielder`            work of one request, in pieces that keep nobody waiting
- `topic_settings`     every setting that a topic may have, in one table
- `setting_kinds`      what the value of a setting may be
- `told`, `told_of_groups`  what an operator should hear of logs and groups, as events
- `dynamic_settings`   which settings may be changed while a broker runs, and what is in force then
- `effective_settings` which settings are in force, and where each comes from
- `group_configs`      settings of single groups

Rule: everything here runs on one loop; what blocks is a job of `log.runtime`.
"""
