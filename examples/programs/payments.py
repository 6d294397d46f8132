"""Orders and their payments: what is paid within 15 minutes, and an alert for each order that is not.

In: `orders` and `payments`, both keyed by the order's number. Out: `paid` and `unpaid`. An order is unpaid when its 15
minutes are over, and the minute by which a payment may come late. Run it with `penstock run payments.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock import JoinWindows, StreamsBuilder


@dataclass(frozen=True)
class Order:
    customer: str
    total: float


@dataclass(frozen=True)
class Payment:
    means: str


@dataclass(frozen=True)
class Outcome:
    customer: str
    total: float
    means: str | None


def outcome(order: Order, payment: Payment | None) -> Outcome:
    return Outcome(order.customer, order.total, payment.means if payment else None)


builder = StreamsBuilder()
orders = builder.stream("orders", key=str, value=Order)
payments = builder.stream("payments", key=str, value=Payment)
window = JoinWindows.of_time_difference_and_grace("15 minutes", "1 minute")
outcomes = orders.left_join(payments, outcome, window, value=Outcome)
outcomes.filter(lambda number, outcome: outcome.means is not None).to("paid")
outcomes.filter(lambda number, outcome: outcome.means is None).to("unpaid")
topology = builder.build()
