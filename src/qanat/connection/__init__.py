"""One small asyncio connection to a broker, for followers, Spark's executors and the command line.

Nothing is here yet.
"""
