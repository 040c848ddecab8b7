"""The composition root and the command line: settings are read, adapters chosen and commands run here.

- `main`           the entry of `qanat`: parse, run, exit code
- `command_tree`   every command, with its module and its one-line meaning
- `start`          `qanat start`, `qanat dev`
- `records`        `qanat produce`, `qanat consume`
- `topics` `groups` `transactions` `configs` `cluster` `pipelines` `logs` `profiles` `users` `api_keys` `acls`   a
  module per verb of the noun
- `secure`         `qanat secure`, and what `qanat cluster up --secure` sets up
- `doctor`         `qanat doctor`
- `bench`          `qanat bench`
- `metrics`        `qanat metrics`: alerts and dashboards, as files
- `completion`     `qanat completion`
- `node`           one node: store, logs, broker and listeners, put together
- `rules`          what is unsafe in a set-up: doctor, config check and production share it
- `settings`       settings of a node: file, environment, flags
- `client`         what client commands share: the target cluster, client settings, consent
- `terminal`       tables, progress, standard streams
- `child_processes`  children that end with this process
- `metrics_page`   docs/operating/metrics.md, generated

Rule 1: `qanat NOUN VERB` is the module `NOUNs.VERB`; a test keeps it so.
Rule 2: commands talk to clusters through `connection`, as any client does; only `start` opens a node, and only
        `users` (for the first user), `secure`, `api_keys` and `doctor` a metadata store.
Rule 3: packages import downward: commands, then `secure` and `users`, then `node` and `configs`, then `terminal`,
        `client`, `rules`, `settings` (`[tool.importlinter]` in pyproject.toml).
"""
