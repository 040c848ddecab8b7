"""Adapters behind our ports: operating-system files, memory, SQLite, etcd.

- `storage_engines`                       the storage engines `file` and `memory`
- `os_files`, `os_file`, `page_cache`     the port `log.files` on the operating system; `os_errors` translates
- `memory_files`, `memory_catalogue`      the same in memory
- `sqlite_catalogue`                      the port `log.directories.catalogue`
- `sqlite_store`, `etcd_store`, `memory_store`   the port `cluster.store`; other `sqlite_*`, `etcd_*` are their parts
- `kept_lease`, `boot_clock`              a lease that a thread renews; the clock that it uses
- `credentials_file`                      the SASL mechanism PLAIN with a password file
- `oauth`                                 tokens of an identity provider, with keys that are fetched from it

Rule: foreign exceptions are translated here, once; no decision is made here.
"""
