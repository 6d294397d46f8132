"""Mistakes of somebody who has read the first pages: each message says where, what was expected, what came and what
to do, and nothing goes wrong in silence."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import pytest

from penstock import StreamsBuilder
from penstock.errors import PenstockError


@dataclasses.dataclass
class Order:
    id: str
    amount: int


Build = Callable[[StreamsBuilder], Any]

AT = re.compile(rf"{re.escape(__file__)}:\d+")


def orders(builder: StreamsBuilder) -> Any:
    return builder.stream("in", key=str, value=Order)


def refusal(build: Build) -> str:
    """What building says, with HERE in place of this file and its line."""
    builder = StreamsBuilder()
    with pytest.raises((PenstockError, AttributeError)) as refused:
        _built(build, builder)
    return AT.sub("HERE", str(refused.value))


def _built(build: Build, builder: StreamsBuilder) -> None:
    build(builder)
    builder.build()


FIELDS = "Order has no field 'idd' (did you mean 'id'?); its fields are id, amount"


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda b: orders(b).deduplicate("idd", "10 s"), f"deduplicate at HERE: {FIELDS}"),
        (
            lambda b: orders(b).deduplicate_by_key_value("idd", "10 s"),
            f"deduplicate_by_key_value at HERE: {FIELDS}",
        ),
        (lambda b: b.stream("in", value=Order, timestamp="idd"), f"timestamp at HERE: {FIELDS}"),
    ],
)
def test_a_field_that_the_class_lacks_is_refused(build: Build, message: str) -> None:
    assert refusal(build) == message
