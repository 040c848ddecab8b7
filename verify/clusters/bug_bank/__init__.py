"""The bug bank (T4): known and plausible bugs, put back into the product; the simulation must find each.

- `bug`                what a bug is, and how it is put in and taken out
- `replication_bugs`   leaders and followers: commit, truncation, append
- `election_bugs`      leaders, the in-sync set, and who may change them
- `durability_bugs`    acknowledgements before a record is on disk, or on other replicas
- `transaction_bugs`   coordinators, markers, producers
- `access_bugs`        ACLs: kept decisions, fetches that wait, rules that are lost or return
- `bank`               all bugs, and the search for them

`python -m verify.clusters.bug_bank` (`make bug-bank`) searches for every bug. Each replaces a part of the product's
code and names its corner case; the simulation knows nothing of it.
"""
