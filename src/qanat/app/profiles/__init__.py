"""`qanat profile list|set|use|delete|settings`: names for clusters, a module per command.

The file that stores them is in `client.profile_file`.
"""
