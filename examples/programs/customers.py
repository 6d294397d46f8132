"""Orders with the customer's name, made right again whenever the customer changes or goes.

In: `customers`, the changes of a database's table as its CDC connector writes them (null as `after` is a deletion), and
`orders`, keyed by number. Out: `named-orders`, keyed by number. Run it with `penstock run customers.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock import StreamsBuilder


@dataclass(frozen=True)
class Customer:
    name: str
    city: str


@dataclass(frozen=True)
class Change:
    op: str
    after: Customer | None


@dataclass(frozen=True)
class Order:
    customer: str
    total: float


@dataclass(frozen=True)
class NamedOrder:
    total: float
    name: str | None
    """None while the customer is not known."""


def named(order: Order, customer: Customer | None) -> NamedOrder:
    return NamedOrder(order.total, customer.name if customer else None)


builder = StreamsBuilder()
changes = builder.stream("customers", key=str, value=Change)
customers = changes.map_values(lambda change: change.after, value=Customer).to_table("customers")
orders = builder.table("orders", key=str, value=Order, store="orders")
orders.left_join(customers, named, foreign_key=lambda order: order.customer, value=NamedOrder).to_stream().to(
    "named-orders"
)
topology = builder.build()
