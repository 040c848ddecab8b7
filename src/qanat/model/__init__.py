"""What several packages share: ids, offsets, error codes, limits.

Values, and small structures over them: nothing here does IO or imports another package.
"""
