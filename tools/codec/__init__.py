"""How the Kafka codec is generated: schemas in, one readable module per API out.

Read in this order:

- `schema`         what a message looks like in one version, and the union over versions
- `kio_source`     messages of the protocol, from kio's typed schemas
- `record_source`  records of the internal topics, from `records.json`
- `api_source`     APIs between brokers that kio does not list yet, from `apis.json`
- `readers`        source text that reads one layout
- `writers`        source text that writes one layout
- `module`         a whole generated module around both

Layouts that do not differ between versions share one function, so that a new
version costs a line and not a page.
"""
