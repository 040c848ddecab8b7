"""The client's side of the push protocol.

- `link`        a connection: authentication, frames, heartbeats
- `receiving`   what a consumer has received and processed: acknowledgements and positions (pure)
"""
