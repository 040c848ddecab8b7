"""What several rooms share: ids, offsets, error codes, limits.

Values only: nothing here does IO, keeps state or imports another room.
"""
