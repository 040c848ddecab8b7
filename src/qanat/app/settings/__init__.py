"""Settings of a node: defaults < file < environment < flags, in one flat namespace of Kafka's dotted names.

- `source_value`       one setting as a source has it, with its place in the source
- `settings_file`      a YAML or properties file, nested or dotted, with `${VARIABLE:default}`
- `environment`        `QANAT_NUM_PARTITIONS` and other variables
- `aliases`            the one table of other spellings, and of settings without effect
- `own_settings`       settings that belong to the node itself
- `environments`       `dev`, `staging`, `production`, and their defaults
- `metadata_settings`  settings of the metadata store
- `catalogue`          every setting, with the struct that owns it
- `secret_values`      secrets from files, variables and commands
- `listeners`          Kafka's syntax for addresses
- `listener_names`     settings that a single listener may have for itself
- `listener_sources`   listeners as sources have them, one or several
- `node_settings`      `NodeSettings`: the settings of a node, package by package
- `listener_plan`      the listeners of a node, resolved: for clients, brokers, HTTP, metrics
- `loading`            all sources combined into `NodeSettings`
- `faults`             the first error raised, or all of them collected
- `settings_page`      `docs/operating/settings.md`, generated

Rule 1: nothing is ignored in silence. An unknown name is an error that says where it stands and which name is nearest;
        a setting without effect is a notice.
Rule 2: values are text until the struct that owns them reads them; errors name the place that the value came from.
Rule 3: a secret is never shown: not in an error, not in a `repr`, not in the command line of a broker that is started.
"""
