"""Diagnosis under fire: real brokers with an injected bottleneck each, which `qanat diagnose` has to name.

- `cases`      what is injected, and what must be named
- `stage`      brokers whose disks, or whose metadata store's, are slow
- `slow_disk.c`  preloaded into a broker: syncs and reads of some files take longer
- `load`       producers, readers and floods of requests, as processes
- `healthy`    the same load without a fault: nothing may be named

    make diagnosis                                  # all cases, then a minute of health
    make diagnosis ARGS="--healthy 600"             # then ten minutes of it
    make diagnosis ARGS="--case slow_disk --healthy 0"
"""
