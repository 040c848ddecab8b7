"""A small asyncio client of the Kafka protocol, for followers, Spark's executors, the Python client
and the command line.

- `faults`        errors, and which of them are worth a retry
- `deadline`      one time limit for many requests and retries
- `security`      client settings of TLS and SASL, under Kafka's and librdkafka's names
- `tls`           TLS contexts from PEM
- `private_files` files with secrets, which others may not read
- `secret_references`  values that are in a file, a variable, or given by a command
- `http_fetch`    one bounded HTTP request, for documents of an identity provider
- `oauth_tokens`  tokens of OAUTHBEARER: from a file, a command, an endpoint
- `sasl`          the client's side of PLAIN, SCRAM and OAUTHBEARER (pure)
- `sasl_session`  SASL authentication of a link, and its renewal
- `network`       how listeners are opened and brokers are reached: the port, and TCP
- `channel`       one socket: frames, correlation, back-pressure
- `link`          a channel that knows the broker's API versions
- `cluster`       many links: bootstrap, metadata, leaders, coordinators, retries
- `offsets`       first and end offsets of partitions, and offsets by time
- `committed`     committed offsets of consumer groups, read and changed
- `share_offsets` the same for share groups
- `sizes`         sizes of partitions
- `fetching`      records from partitions
- `batch_sizes`   sizes of a partition's batches, one by one
- `assignors`     client-side assignors of consumer groups
- `membership`    one member of a consumer group in the classic protocol: join, heartbeat, commit, leave
- `consuming`     consumers: places in groups of either protocol, fetch sessions, positions of partitions
- `producer_session`  a producer's identity, and its transactions at their coordinator
- `topic_leaders` leaders of topics, kept until a request fails
- `batch_pipeline`  the batches of a partition on their way: numbers, order, retries (pure)
- `pipelined_producer`  its shell: several requests in flight; every record that a client sends goes through it
- `batch_producer`    producers of callers that have whole batches and wait for each
- `share_membership`  one member of a share group: heartbeats and assignment
- `share_sessions`    its fetches and acknowledgements to one broker (pure)
- `records`       whole topics, read and filtered
- `dead_letters`  dead letters read, selected and redriven

Rule 1: every wait has a deadline; a broker that does not answer costs bounded time.
Rule 2: topics are named. Versions that know topics by id only are left to callers that have ids.
Rule 3: nothing here is buffered without bound: a caller sends, and waits for the answer.
"""
