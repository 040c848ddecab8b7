"""`qanat user`: users that log in with SCRAM, a module per command.

- `add`
- `list`
- `password`        set another password
- `remove`
- `user_directory`  where users are: a running cluster, or the metadata store of one that is not started yet
- `password_input`  passwords from a prompt, a file or the environment
"""
