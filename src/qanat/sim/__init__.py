"""The second composition root: the same parts on a seeded disk (later: clock, network, store).

Rule: one seed, one history. Nothing here may look at the wall clock, iterate a
set or lean on `hash()`.
"""
