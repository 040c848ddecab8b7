"""TODO compaction."""
