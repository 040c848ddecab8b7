"""`qanat acl`: rules of the built-in authorizer, a module per command.

- `list`
- `add`
- `remove`
- `why`           the rule that decides, or the missing one as a command
- `acl_options`   principals, operations and resources as users write them
- `acl_requests`  rules over the protocol
"""
