"""Leader and follower: the in-sync set, the high watermark, epochs and fencing.

- `leader`     one partition as its leader sees it: who has how much, what is committed, who should be in sync
- `follower`   one partition as a follower sees it: what to do with what the leader said
- `throttle`   how fast copies may catch up

Pure machines: the time is an argument, bytes live in `log`, connections in `connection`, and whoever drives them is in
`broker`.

Rule 1: a record is committed when every member of the maximal in-sync set has it: of the set that is stored and of
        the one that is being stored, whichever of them will turn out to be true (C09).
Rule 2: nothing is committed while fewer than `min.insync.replicas` are in sync (C12).
Rule 3: a follower's copy is cut by leader epochs, never by the high watermark (C01).
"""
