"""Administration of users and ACLs.

- `describe_acls`, `create_acls`, `delete_acls`  rules of the built-in authorizer
- `acl_authorizer`                               the authorizer that these three are about
- `describe_user_scram_credentials`, `alter_user_scram_credentials`  users that log in with SCRAM
"""
