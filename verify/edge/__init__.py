"""A simulated tree of brokers: the cores of `qanat.edge` between models of logs, over links that fail, by a seed.

- `world`     virtual time, machines that die, links with rates, loss, asymmetry and cuts of days
- `logs`      a model of a partition's log: batches, epochs, what is on disk, the answer to a pipe
- `origin`    the root's partitions: producers, failovers, unclean elections, retention; and the target of the way up
- `child`     a node below: its disk, and the process that pulls, pushes up and asks the registry
- `tree`      the registry with its store, and moves of nodes
- `run`       one seed: events, faults, healing
- `checker`   what must hold at every step and at the end: nothing lost, nothing doubled, byte-identical, gaps reported
- `crowd`     ten thousand nodes that reconnect to one broker at once, which answers one request after the other
- `bug_bank`  bugs put into the cores; each must be found

`python -m verify.edge --seeds 1-5000` runs a sweep, `python -m verify.edge bugs` the bank.
"""
