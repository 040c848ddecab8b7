"""The edge measured: a child that returns after a long time, a slow link, and ten thousand edges at once.

- `link`      a link in this process: a rate for all its connections together, and a delay
- `tree`      a root and a child as their users start them, the child behind the link
- `catch_up`  the backlog of a week over a link, beside a bare TCP stream on the same link; what is urgent meanwhile
- `slow`      two megabytes over 50 kbit/s: how often the child connects
- `crowd`     ten thousand edges that reconnect at once, and then wait

`python -m bench.edge` prints every figure and its limit.
"""
