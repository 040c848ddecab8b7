"""One small asyncio client of the Kafka protocol, for followers, Spark's executors and the command line.

- `faults`        what can go wrong, and what is worth trying again
- `deadline`      how long an undertaking may take in all
- `security`      what a client may be told about TLS and SASL, in Kafka's and librdkafka's names
- `tls`           certificates that are trusted and shown
- `sasl`          the dialogues of PLAIN and SCRAM (pure)
- `authenticating` being let in, and staying so
- `channel`       one socket: frames, correlation, back-pressure
- `link`          a channel that knows which versions the broker speaks
- `cluster`       many links: bootstrap, metadata, leaders, coordinators, retries
- `offsets`       where partitions begin and end, and which offset a time has
- `committed`     where consumer groups stand, and moving them
- `share_offsets` the same for share groups
- `sizes`         how large partitions are
- `fetching`      records out of partitions
- `batch_sizes`   how large their batches are, one by one
- `producing`     records into partitions
- `assignors`     who of a consumer group reads what
- `membership`    one member of a consumer group: join, live, commit, leave
- `producer`      the same counted once, and in transactions

Rule 1: every wait has a deadline; a broker that does not answer costs bounded time.
Rule 2: topics go by name. Versions that know topics by id only are left to those who have ids.
Rule 3: nothing here is buffered without bound: a caller sends, and waits for the answer.
"""
