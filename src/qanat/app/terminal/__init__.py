"""The terminal: what commands read from it and print to it.

- `standard_streams`  streams that are closed, full or without a reader; `print_error`
- `printable`         untrusted text made safe for a terminal
- `listing`           rows as table, JSON, YAML, CSV or names
- `progress`          status lines and progress bars on stderr
- `watch`             `--watch`: the same listing again and again
- `stdin_lines`       standard input as chunks of whole lines
- `plot`              line charts as SVG

Rule: standard output is for results, stderr for errors and progress; progress is shown on terminals only.
"""
