"""Simulated clusters: the product's own brokers on a seeded clock, network, disk and store.

- `plan`            the cluster's size, load and faults, drawn from a seed
- `run`             one run from one seed
- `store`           the metadata store as one machine sees it
- `machine`         a host: a disk, and a broker that is started and killed
- `faults`          fault injection into machines, network, store and disks: `FAULTS`
- `clients`         producers and consumers, which record a `history`
- `background_load` a group that commits, an operator, topics that are created and deleted
- `access`          users with ACLs, and an administrator who changes them
- `acl_observer`    ACLs of brokers, compared with those of the store
- `checker`         anomalies that a history may not show
- `checks`          invariants inside the machines
- `ledger`          committed offsets and stored states, which the cluster may never revoke
- `unhandled`       exceptions that the product leaves unhandled: each is a failure
- `sweep`           many runs; `python -m verify.clusters` runs them
- `growth`          the cost of the metadata plane from 3 brokers to 100; `python -m verify.clusters.growth`
- `bug_bank`        known bugs, put back into the product: the simulation must find each

The seeded event loop, network and disk are in `qanat.testing.simulation`.

Rule: one seed, one history. Nothing here reads the wall clock, iterates a set or depends on `hash()`.
"""
