"""The HTTP server compared with a bare handler on the same protocol, in the same run, on loopback.

    python -m bench.http              about a minute; make bench-http does the same
    python -m bench.http --quick      some seconds

- `__main__`   the command line, the requirements, and the table
- `bare`       the bare handler: reads the body, answers with as many bytes as produce would
- `load`       the client: requests on many connections, batches of lines, a stream with a producer

Rule: both sides get the same client, the same request and the same processors, and take turns; the ratio is taken
within the round.
"""
