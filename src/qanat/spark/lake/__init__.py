"""The lake of an archive: records as Parquet files, and commits that say which of them count.

- `files`     a folder, local or at an address: whole files or none, lists, removal
- `commits`   what a commit says: files, topics, groups; and what many of them add up to (pure)
- `lake`      a lake that is opened, read and committed to
- `parquet`   an executor's part: rows into Parquet files, by topic, date and hour
- `merging`   small files of an hour become one

Rule 1: a file that no commit names does not exist. Commits are numbered without gaps and each appears as a whole.
Rule 2: the lake knows how far it is: where the archive goes on is read from it, and from nowhere else.
Rule 3: a file holds records of one partition in the order of their offsets.
"""
