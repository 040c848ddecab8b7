"""`qanat push`: subscribe and produce over the push protocol, and see who is connected.

- `subscribe`, `produce`, `list`, `refresh`  the commands
- `connecting`                               settings of push clients from a command's target
"""
