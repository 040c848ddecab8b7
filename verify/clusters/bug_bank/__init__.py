"""T4: bugs that clusters like ours have had or could have, put back into the product; the simulation must find them.

- `bug`                what a bug is, and how it is put in and taken out
- `replication_bugs`   leaders and followers: what is committed, what is cut, what is appended
- `election_bugs`      who leads, who is in sync, and who may say so
- `durability_bugs`    what is told before it is on disk, or before others have it
- `transaction_bugs`   coordinators, markers, producers
- `bank`               all of them, and how they are looked for

`python -m verify.clusters.bug_bank` (`make bug-bank`) looks for every one of them. Each edits the product's own code
and names its corner case; the simulation knows nothing of it.
"""
