"""Aggregates by name that do not fit are refused when the topology is built, with what to write."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from penstock import (
    Collect,
    Count,
    Last,
    Materialized,
    Max,
    Mean,
    PenstockError,
    SessionWindows,
    StreamsBuilder,
    Sum,
    TimeWindows,
    TopN,
)


@dataclass
class Order:
    user: str
    amount: int
    tags: list[str]
    is_paid: bool


@dataclass
class Total:
    total: float
    orders: int


@dataclass
class Text:
    total: str


def grouped() -> Any:
    return StreamsBuilder().stream("in", key=str, value=Order).group_by_key()


def said(call: Any) -> str:
    """The error of a call, without the place."""
    with pytest.raises(PenstockError) as caught:
        call(grouped())
    return str(caught.value).partition(": ")[2]


REFUSED: list[tuple[Any, str]] = [
    (
        lambda groups: groups.aggregate(total=Sum("amuont")),
        "Sum('amuont'): Order has no field 'amuont' (did you mean 'amount'?); "
        "its fields are user, amount, tags, is_paid",
    ),
    (lambda groups: groups.aggregate(total=Sum("user.id")), "Sum('user.id'): values of type str have no field 'id'"),
    (
        lambda groups: groups.aggregate(total=Sum(".x")),
        "Sum('.x'): '.x' names no field; write it like \"amount\" or \"payload.amount\"",
    ),
    (
        lambda groups: groups.aggregate(total=Sum("user")),
        "Sum('user') takes numbers; got values of type str",
    ),
    (
        lambda groups: groups.aggregate(total=Mean("is_paid")),
        "Mean('is_paid') takes numbers; got values of type bool",
    ),
    (
        lambda groups: groups.aggregate(most=Max("tags")),
        "Max('tags') takes numbers, text or times; got values of type list[str]",
    ),
    (
        lambda groups: groups.aggregate(total=Sum()),
        "Sum() takes numbers; got values of type Order",
    ),
    (
        lambda groups: groups.aggregate(top=TopN(2, by="tags")),
        "TopN(2, by='tags') takes numbers, text or times to rank by; got values of type list[str]",
    ),
    (
        lambda groups: groups.aggregate(top=TopN(2, by="x")),
        "TopN(2, by='x'): Order has no field 'x'; its fields are user, amount, tags, is_paid",
    ),
    (
        lambda groups: groups.aggregate(top=TopN(0, by="amount")),
        "count takes a whole number from 1 on; got 0",
    ),
    (
        lambda groups: groups.aggregate(top=Collect(limit=True)),
        "limit takes a whole number from 1 on; got True",
    ),
    (
        lambda groups: groups.aggregate(orders=Count),
        "orders= takes an aggregate, not its class; write Count()",
    ),
    (
        lambda groups: groups.aggregate(Count()),
        "each aggregate has a name, such as orders=Count(); got Count()",
    ),
    (
        lambda groups: groups.aggregate(value=Count()),
        "value= is an argument of aggregate itself; give Count() another name",
    ),
    (
        lambda groups: groups.aggregate(orders=Count(), stroe="orders"),
        "stroe= takes an aggregate such as Count() or Sum('amount') beside the others; got 'orders' of type str "
        "(did you mean 'store'?)",
    ),
    (
        lambda groups: groups.aggregate(_orders=Count()),
        "'_orders' is no name for a field; take letters, digits and single underscores between them",
    ),
    (
        lambda groups: groups.aggregate(**{"of a day": Count()}),
        "'of a day' is no name for a field; take letters, digits and single underscores between them",
    ),
    (
        lambda groups: groups.aggregate(value=Total, orders=Count()),
        "value=Total must have the fields orders, as the aggregates are named; it has total, orders",
    ),
    (
        lambda groups: groups.aggregate(value=Text, total=Sum("amount")),
        "value=Text: its field total is of type str, and Sum('amount') gives int | None",
    ),
    (
        lambda groups: groups.aggregate(materialized=Materialized.with_(str, dict), orders=Count()),
        "its aggregates say what is kept, so the Materialized takes no type of values; for a class of your own as the "
        "result write value=",
    ),
    (
        lambda groups: groups.windowed_by(TimeWindows.of_size_with_no_grace(5)).aggregate(total=Sum("x")),
        "Sum('x'): Order has no field 'x'; its fields are user, amount, tags, is_paid",
    ),
    (
        lambda groups: groups.windowed_by(SessionWindows.of_inactivity_gap_with_no_grace(5)).aggregate(total=Sum("x")),
        "Sum('x'): Order has no field 'x'; its fields are user, amount, tags, is_paid",
    ),
]


@pytest.mark.parametrize(("call", "message"), REFUSED, ids=[message[:50] for _, message in REFUSED])
def test_what_does_not_fit_is_refused(call: Any, message: str):
    assert said(call) == message


def test_fields_of_plain_values_are_refused():
    groups = StreamsBuilder().stream("in", key=str, value=int).group_by_key()
    with pytest.raises(
        PenstockError, match="values of type int have no fields; leave the field out for the value itse"
    ):
        groups.aggregate(total=Sum("amount"))


def test_tables_refuse_what_cannot_be_taken_out_again():
    table = StreamsBuilder().table("in", key=str, value=Order)
    groups = table.group_by(lambda key, order: (order.user, order), key=str)
    for one in (Max("amount"), Last("amount")):
        with pytest.raises(PenstockError) as caught:
            groups.aggregate(result=one)
        assert str(caught.value).partition(": ")[2] == (
            f"{one!r} cannot subtract a row, and rows of a table change; keep all values of a group, as "
            "Collect() does without a limit"
        )


def test_a_field_of_a_function_is_refused_where_it_takes_other_arguments():
    with pytest.raises(PenstockError, match=r"takes a function of \(value\) or \(key, value\)"):
        grouped().aggregate(total=Sum(lambda a, b, c: 1))
