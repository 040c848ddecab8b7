"""Simulated push: the cores of `qanat.edge` between a model of a log and models of consumers, by a seed.

- `model`     the broker's durable state: logs with epochs, commits of a group, a queue with locks
- `broker`    a broker process: connections, sessions, rebalances; a kill loses all of it and none of the model
- `consumers` consumer processes: a member of the group, a subscriber with a store of its own, a worker of the queue
- `run`       one seed: steps, faults, checks, and the end at which everything must have arrived
- `bug_bank`  bugs put into the cores; each must be found
- `refresh_*` the same for refreshes: the ledger, generations in the stores of consumers, kills in every state

`python -m verify.push --seeds 1-2000` runs a sweep, `python -m verify.push bugs` the bank.
"""
