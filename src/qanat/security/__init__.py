"""Principals, ACL evaluation, credentials and the key ring. Nothing is here yet."""
