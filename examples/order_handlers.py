"""Handlers by annotations, with retries and a topic for what cannot be handled.

qanat run examples.order_handlers:app --workers 2
python examples/order_handlers.py [localhost:9092]      handles what is there until "last" comes
"""

from __future__ import annotations

import sys

import msgspec

from qanat.client import App, Context, Retry

SERVERS = sys.argv[1] if len(sys.argv) > 1 else "localhost:9092"
app = App(SERVERS)


class Order(msgspec.Struct):
    """The value of a record, as JSON."""

    id: str
    amount: float


@app.stream("orders", group="billing", retry=Retry(3, backoff="10ms..1s", on=OSError), dead_letter="orders.dlq")
async def bill(order: Order, ctx: Context) -> None:
    """Bill an order; amounts below zero can never be billed and become dead letters."""
    if order.amount < 0:
        raise ValueError("a negative amount")
    if order.id == "flaky" and ctx.attempt == 1:
        raise OSError("the bank does not answer")
    print(f"billed {order.id} at attempt {ctx.attempt}", flush=True)


if __name__ == "__main__":
    app.run()
