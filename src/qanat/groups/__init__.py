"""Consumer groups (classic and KIP-848), share groups, committed offsets, assignors.

Pure ledgers on internal topics. Nothing is here yet.
"""
