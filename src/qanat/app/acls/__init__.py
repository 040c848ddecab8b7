"""`qanat acl`: rules of the built-in authorizer, a module per command.

- `list`
- `add`
- `remove`
- `suggest`       the rules that are missing for what a dry run has recorded
- `why`           the rule that decides, or the missing one as a command
- `acl_options`   principals, operations and resources as users write them
- `acl_requests`  rules over the protocol
"""
