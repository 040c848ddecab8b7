"""The asyncio application that hosts partitions and coordinators, waits and supervises.

Nothing is here yet.
"""
