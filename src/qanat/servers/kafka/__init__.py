"""The Kafka protocol's door: frames in, answers out, in order.

- `connection` one client's socket: framing, order of answers, back-pressure
- `connection_limits` what all connections may hold together, and who goes on when all of it is taken
- `dispatch`   from a frame to the API that serves it; what unknown APIs and versions get
- `codec_worker`     reading and writing of long messages, on a worker
- `sasl`       what a client may say before it is authenticated
- `gate`       who is let in and who decides what they may do; `guards` what each API asks of them
- `lone_produce`, `lone_fetch` the short way of the two requests that a client repeats all day
- `parked_fetch` a fetch that waits for records
- `new_leaders` whom to ask instead
- `error_counts` which errors an answer carries
- `acts`       what administration has in common: carried to its end, answered in time
- `config_resources` what configurations belong to
- a file per API, each with its card: versions served, what each added, what deliberately differs

Rule 1: answers leave in the order of their requests, whatever is parked in between.
Rule 2: a request takes effect before the next one of its connection is looked at;
        only its answer may wait.
Rule 3: nobody works at one request for long. One of very many rows is read and answered beside the loop
        (`Context.is_long`), and whoever goes through many rows takes breaths (`Context.yielder`); what others
        must see as one happens between two of them.
"""
