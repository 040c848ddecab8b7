"""The controller: the one broker that elects leaders, and how brokers that have ended are evicted.

- `controller_loop`     becomes the controller, elects leaders, commits what `cluster.controller` decides
- `replica_proofs`      asks brokers what their logs hold before an election is decided
- `waiting_elections`   partitions that wait for a leader, and why
- `auto_rebalance`      moves replicas: internal topics get enough, a new broker gets its share
- `failure_detector`    evicts brokers whose process has ended, before their lease expires

Every broker runs all of this; only the one that holds `/qanat/controller` acts as the controller. The decisions are in
`cluster`.
"""
