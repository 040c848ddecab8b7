"""The cluster's metadata: the store's port, the image, and decisions about topics, replicas, leaders and settings.

The store:

- `store`              the port: entries with revisions, compare-and-set commits, watch, leases
- `keys`               the keys of the store
- `values`             the values: JSON with a version each
- `format_levels`      the form of the values, while brokers of two versions share the store
- `image`              the metadata image: what a broker knows of its cluster, updated by events
- `producer_ids`       producer ids, in blocks from the store

Leaders:

- `nodes`              registered brokers, and what has become of the members of an in-sync set
- `proofs`             what is known of a partition's replicas: proofs and reported faults
- `elections`          which replica leads a partition, and which are in sync or eligible
- `election_waits`     why a partition has no leader yet
- `controller`         what the controller has to change, as commits
- `failure_detector`   which brokers are evicted before their lease expires

Replicas:

- `placement`          which brokers get the replicas of a new topic
- `reassignments`      partitions moved to other brokers, leaders chosen by an operator
- `spreading`          where replicas should go: away from a broker, or evenly over all
- `auto_rebalance`     what the controller moves by itself

Topics:

- `topics`             create, delete, add partitions: one commit each
- `topic_configs`      settings of topics, brokers and groups, likewise
- `rejection`          a decision's "no"

Rule 1: decisions read the image and return a commit; they do nothing themselves.
Rule 2: a commit compares what its decision was based on, so an old image does no harm.
Rule 3: one act is one commit; nothing in the store is ever half done.
"""
