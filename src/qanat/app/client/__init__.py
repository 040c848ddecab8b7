"""What client commands share: the cluster they talk to, their settings, and the operator's consent.

- `arguments`        `name=value` pairs, `WrongArgumentError`
- `client_settings`  settings in the names of Kafka's clients: `-X`, `--command-config`, `$QANAT_CLIENT_…`
- `profile_file`     named clusters in `~/.config/qanat/config.yaml`
- `target`           `--bootstrap`, `--profile`, `--timeout` resolved to a cluster; `run` connects to it
- `consent`          `--yes`, `--dry-run`

Rule: flags come before `--profile`, that before variables, those before the profile in use.
"""
