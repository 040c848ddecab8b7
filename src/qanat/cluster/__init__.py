"""The metadata image, the decisions about topics, and the MetadataStore port.

- `store`           the port: entries with revisions, compare-and-set commits, watch, leases
- `keys`            where everything lies in the store
- `values`          what lies there: JSON with a version each
- `format_levels`   in which forms that is, while brokers of two versions share it
- `image`           what a broker knows of its cluster, kept up by events
- `topic_names`     which names a topic may have
- `placement`       which brokers hold which replicas
- `nodes`           how brokers stand: alive, back again, back without their data
- `elections`       who leads a partition, and who has all of it
- `controller`      what the controller has to change, as commits
- `failure_detector` which brokers are evicted before their lease runs out
- `reassignments`   partitions moved to other brokers, leaders chosen by hand
- `spreading`       where replicas should go: away from a broker, or evenly over all
- `arrangement`     what the controller moves by itself
- `topics`          create, delete, add partitions: decided into one commit each
- `topic_configs`   topic settings, likewise
- `rejection`       a decision's "no"
- `producer_ids`    producer ids in blocks from the store

Rule 1: decisions read the image and return a commit; they do nothing themselves.
Rule 2: what a decision stood on is compared in its commit, so an old image does no harm.
Rule 3: one act is one commit; nothing in the store is ever half done.
"""
