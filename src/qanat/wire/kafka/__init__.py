"""Kafka's messages: bytes to values and back, for every API that we serve or use.

- `registry`  every API key; name, versions and codec of each API, imported on first use
- `headers`   the bytes in front of a message: frame size, request and response headers
- `messages`  generated, one module per API: a class per message over all its versions
- `records`   records of the internal topics, in Kafka's own form
- `reading`   the reader's parts, with every limit on clients' requests
- `writing`   the writer's parts; records pass through without a copy
- `layouts`   other parts that the generated modules share

A handler knows its API and imports it; a server that has only a number asks the registry:

    from qanat.wire.kafka.messages import produce

    header = read_request_header(frame)
    request = produce.read_request(frame, header.api_version, header.body_position)
    chunks = produce.write_response(produce.ProduceResponse(...), header.api_version)
    transport.writelines(frame_response(0, header.api_version, header.correlation_id, chunks))

Rule 1: times are milliseconds, error codes are numbers, topic ids are 16 bytes, all
zero for none. Every field has a default, Kafka's own. A nested struct that the
protocol sends only when it is needed (a tagged one) is None otherwise.
Rule 2: a field that a version does not have is not written, and has its default when read.
Rule 3: `read_...` takes the whole rest of a frame and raises `MalformedMessageError`
for anything wrong with it. A version outside the registry's range is the caller's bug.
A request may be read with a bound on the work it takes (`most_units`).
Rule 4: `records` read are views of the frame and keep it alive.

`make codec` generates `messages` from the schemas (`tools/generate_codec.py`).
"""
