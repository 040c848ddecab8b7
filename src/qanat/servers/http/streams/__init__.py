"""Streams over HTTP: a topic's records as they arrive.

- `server_sent_events`, `websocket`  the two protocols; `topic_stream` opens a stream for both
- `stream_writer`       reads records only as fast as the client takes them
- `multi_leader_fetch`  one fetch parked at each leader
- `stream_limits`       how many streams a client may have open
"""
