"""The Kafka server: frames in, answers out, in order. Transport only; the handlers stand in `qanat.api`.

- `listener`           the listening sockets: accepts, counts and closes connections; `endpoint` one address
- `first_byte`         hands connections of the push protocol to their server
- `connection`         one client's socket: framing, order of answers, back-pressure
- `connection_limits`  the memory that all connections may hold, and which of them go on when it is full
- `dispatch`           from a frame to its handler and back to an answer; unknown APIs and versions
- `codec_worker`       decoding and encoding of long messages, in a worker
- `unauthenticated`    frames of a client before it is authenticated; `sasl_handshake`, `sasl_authenticate` its APIs
- `unauthenticated_clients`  how many of them, for how long, with how many bytes
- `fast_dispatch`      the fast paths first, then the ordinary path (compiled)
- `produce_fast_path`, `fetch_fast_path`  the fast paths of the two most common requests

Rule 1: answers leave in the order of their requests, whatever is parked in between.
Rule 2: a request takes effect before the next one of its connection is handled; only its answer may wait.
Rule 3: no request holds the event loop for long. A request of very many rows is decoded in a worker
        (`RequestContext.is_long`), and handlers yield between rows (`RequestContext.yielder`); what others must
        see as one step happens between two yields.
"""
