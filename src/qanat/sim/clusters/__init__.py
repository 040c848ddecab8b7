"""Whole clusters from a seed: the product's own brokers on a simulated clock, network, disk and store.

- `loop`       an event loop whose clock jumps, and whose callbacks belong to machines
- `network`    connections: delayed, cut, reset, silent
- `store`      the metadata store as one machine sees it
- `machine`    a host: a disk, and a broker that is started and killed
- `run`        one life from one seed; `FAULTS` are what it may meet
- `clients`    they send, read and note down what they were told (`history`)
- `checker`    what a history may not show
- `checks`     what must hold inside the machines
- `sweep`      many lives; `python -m qanat.sim.clusters` runs them

Rule: one seed, one history, as everywhere in `sim`.
"""
