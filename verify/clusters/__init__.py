"""Whole clusters from a seed: the product's own brokers on a simulated clock, network, disk and store.

- `loop`       an event loop whose clock jumps, and whose callbacks belong to machines
- `network`    connections: delayed, cut, reset, silent
- `store`      the metadata store as one machine sees it
- `machine`    a host: a disk, and a broker that is started and killed
- `plan`       what a seed stands for
- `faults`     what is done to the machines, the network, the store and the disks: `FAULTS`
- `run`        one life from one seed
- `clients`    they send, read and note down what they were told (`history`)
- `bystanders` a group that commits, an operator, topics that come and go
- `checker`    what a history may not show
- `checks`     what must hold inside the machines
- `unhandled`  exceptions that the product leaves unhandled: each is a failure
- `ledger`     what was ever committed or stored, and may not be gone back on
- `sweep`      many lives; `python -m verify.clusters` runs them
- `growth`     what the metadata plane costs from 3 brokers to 100; `python -m verify.clusters.growth`
- `bug_bank`   known bugs, put back into the product: all of this must find them

Rule: one seed, one history, as everywhere in `sim`.
"""
