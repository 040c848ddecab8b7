"""A consumer application: it keeps what a broker pushes in local segments, and answers REST queries from them.

- `settings`        its settings: file, environment, flags
- `partition_copy`  a local log with the broker's offsets and epochs
- `record_index`    the index in SQLite
- `record_store`    copies in generations, and their index: store, refresh, catch up
- `reading`         queries: the index finds records, the segments hold them
- `store_thread`    the one thread that owns the store
- `receiving`       what is pushed is stored, then acknowledged
- `database_copy`   all records as an SQLite database, for download
- `operations`, `cursors`  parameters and answers of REST; where the next page begins
- `rest_server`     HTTP
- `health`, `counters`
- `application`     all of it, at work

What is stored of what arrives, and which generation is served, is decided in `qanat.edge`: `kept_records` and
`generations`.
"""
