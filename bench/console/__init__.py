"""The web console beside its bars: page weight, load, sorting and searching long listings, cost to the broker.

- `stage`     a broker with very many topics and groups, through its own APIs
- `browser`   a real Chromium: first page, sort, filter, groups, the number of nodes
- `costs`     what it costs the broker: ten tabs, /metrics, search over records
- `lag`       lag beside what librdkafka computes

    make bench-console                                   # 5,000 topics, 10,000 groups
    make bench-console ARGS="--topics 300 --groups 500"  # in a minute

Bars are those of an unloaded machine; figures of a busy one are hints.
"""
