"""Users and ACLs of the metadata image, in the forms that `qanat.security` decides on.

- `acl_entries`       an ACL of the metadata store to a rule and back
- `acl_authorizer`    the built-in authorizer
- `user_credentials`  SCRAM verifiers of users
"""
