"""Leader and follower: the in-sync set, the high watermark, epochs and fencing.

Pure machines; bytes live in `log`, connections in `connection`. Nothing is here yet.
"""
