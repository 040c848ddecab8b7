"""The world behind our ports: operating-system files, memory, SQLite, etcd.

Rule: foreign exceptions are translated here, once; no decision is made here.
"""
