"""Diagnosis: where the time of requests goes, what limits a cluster, and what to do about it.

- `readings`          what one broker has counted, at one time
- `window`            two readings of a broker as rates and shares
- `time_split`        the time of requests, by cause
- `findings`          what limits, with its evidence and remedy
- `broker_judgements`, `cluster_judgements`  from figures to findings
- `diagnosis`         all of it, from two snapshots of a cluster

Rule 1: it judges readings and nothing else: no clock, no cluster. `broker.load_sampler` makes them; HTTP and the
        command line take two, some seconds apart.
Rule 2: a finding names what limits requests now. A figure that is unusual and costs nobody time is none.
"""
