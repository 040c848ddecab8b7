"""The cluster's metadata on this broker: its image, our registration, and changes that clients ask for.

- `image_watcher`      the metadata image, kept current by watching the store
- `registration`       our registration under a lease, renewed when the lease is lost
- `confirmed_lease`    whether the lease was renewed recently enough to act on it
- `metadata_changes`   commits of what clients and coordinators decide: topics, settings, replicas, format level
- `cluster_node`       the protocol for parts that read and change the metadata

Decisions are in `cluster`; the controller's own changes are in `broker.controller`.
"""
