"""A tree of three real brokers, each in a network namespace of its own, while the links between them are cut.

- `nodes`      the brokers of the tree: started, killed with -9, found again
- `traffic`    a producer at the root and a consumer at every level; the same upwards, from an outbox of the last level
- `run`        cuts, kills and moves, one after the other by a seed; then healing
- `judgement`  nothing lost, nothing doubled, the same bytes at every level; how long records waited over whole links

`make edge-fire SECONDS=3600`. Needs root and `ip`. The simulation of the same is `verify.edge`.
"""
