"""The lake of an archive: records as Parquet files, and commits that say which of them count.

- `files`     a folder, local or at an address, with atomic writes
- `commits`   a commit: files, topics, groups; and the sum of many commits (pure)
- `lake`      a lake: opened, read, committed to
- `parquet`   an executor's part: rows into Parquet files, by topic, date and hour
- `merging`   small files of an hour merged into one

Rule 1: a file that no commit names does not exist. Commits are numbered without gaps, and each is written atomically.
Rule 2: the position of an archive is in its lake, and nowhere else.
Rule 3: a file holds records of one partition in the order of their offsets.
"""
