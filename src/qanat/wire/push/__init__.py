"""The push protocol: eight types of frames, with which a broker sends records as soon as they can be read.

- `frames`    the 13 bytes in front of every frame, and a stream of bytes cut into frames
- `data`      the payload of DATA: one record (form 0), or closed record batches (form 1)
- `control`   the payloads of all other frames: JSON objects
- `plain`     the dialect of a client that names no version: DATA is JSON as well

The reference for people who write a client is `docs/protocols/push.md`; the reasons are in decision 0019.

Rule 1: a length is checked before a byte is allocated for it.
Rule 2: unknown fields of a control frame are ignored, unknown types of frames and forms of DATA are refused.
"""
