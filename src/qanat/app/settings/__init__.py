"""What a node is told: defaults < file < environment < flags, in one flat namespace of Kafka's dotted names.

- `given`      one setting as somebody wrote it, with where
- `file`       a YAML or properties file, nested or dotted, with `${VARIABLE:default}`
- `environment` `QANAT_NUM_PARTITIONS` and its like
- `aliases`    the one table of other spellings, and of what has no meaning here
- `own`        settings that belong to the node itself
- `metadata`   settings of the metadata store
- `catalogue`  every setting there is
- `listeners`  Kafka's syntax for addresses
- `loading`    all of it put together into `NodeSettings`
- `page`       `docs/operating/settings.md`, generated

Rule 1: nothing is ignored in silence. A name that nobody knows is an error that says
        where it stands and what is nearest; one without a meaning here is a notice.
Rule 2: values are text until the struct that owns them reads them; what is wrong is said
        with the place it came from.
"""
