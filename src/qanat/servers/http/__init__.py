"""The HTTP server: produce, consume, administer and observe, from anything that speaks HTTP.

- `settings`        its settings; `listener` the listening socket, `protocol` one connection with its limits
- `application`     from a request to its answer; `exchange` one request, `reply` its answer, `problems` errors as
                    documents (RFC 9457); `accounting` counts and times them
- `operations`      an operation as data; `inputs` its parameters and bodies; `operation_table` all of them;
                    `paging` listings a page at a time, `kept_answers` what takes long to find
- `context`         the parts that operations share
- `caller`          the client of a request; `authentication` finds its principal, by a password or by `api_keys`;
                    `sessions` of browsers that signed in; `denials` says what it may not,
                    `known_hosts` by which names it may call, `cors` which web pages may
- `kafka_gateway`   Kafka requests for a caller: to this broker's handlers, or to the broker that leads;
                    `broker_links` connections to the others
- `topic_lookup`    topics by name, created on first use
- `records`         write and read records
- `streams`         records as they arrive: Server-Sent Events, WebSocket
- `groups`          consumer groups and share groups
- `admin`           topics, configurations, cluster, users and rules, health, documentation; `admin.traffic` collects
                    sizes and rates while someone looks

Rule 1: HTTP decides nothing about topics, groups or records. It makes the requests of a Kafka client
        (`kafka_gateway`), so that authorization, limits and errors are the same for both. Records for a partition that
        this broker leads are appended without a Produce request, by the same checks (`api.records.append`).
Rule 2: nothing is kept between two requests that another node would not know, but sessions of browsers, and for some
        seconds what takes long to find (`kept_answers`).
Rule 3: nothing here is imported before the Kafka listener answers.
"""
