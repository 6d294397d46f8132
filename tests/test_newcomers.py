"""Mistakes of somebody who has read the first pages: each message says where, what was expected, what came and what
to do, and nothing goes wrong in silence."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import pytest

from penstock import Processor, StreamsBuilder
from penstock.errors import PenstockError, ProcessingError
from penstock.testing import TopologyTestDriver


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


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda b: orders(b).select("id"),
            "'KStream' object has no attribute 'select'; map_values(...) makes new values; with a class: "
            'map_values(Slim, id=col("id"), cents=col("amount") * 100)',
        ),
        (
            lambda b: orders(b).group_by_key().sum("amount"),
            "'KGroupedStream' object has no attribute 'sum'; aggregates have names: "
            'aggregate(total=Sum("amount"), n=Count())',
        ),
        (
            lambda b: orders(b).group_by_key().distinct(),
            "'KGroupedStream' object has no attribute 'distinct'; windows come first: windowed_by(...).distinct(...)",
        ),
        (
            lambda b: b.global_table("t", value=int).to_stream(),
            "'GlobalKTable' object has no attribute 'to_stream'; a global table is only looked up, in "
            "stream.join(table, joiner, key_selector=...); builder.table(topic) has to_stream",
        ),
        (
            lambda b: orders(b).split().branch(lambda key, order: True).to("out"),
            "'BranchedKStream' object has no attribute 'to'; end the branches first: default_branch(name) or "
            "no_default_branch(), which returns the streams by name",
        ),
    ],
)
def test_a_name_of_spark_or_of_another_class_leads_to_the_right_one(build: Build, message: str) -> None:
    assert refusal(build) == message


def test_a_column_of_pyspark_is_told_from_one_of_penstock() -> None:
    class Column:
        """Stands for PySpark's, which needs a session."""

    Column.__module__ = "pyspark.sql.classic.column"
    assert refusal(lambda b: orders(b).filter(Column())).endswith(
        "this is a column of PySpark; `from penstock import col` has those of Penstock"
    )


def test_streams_with_keys_of_two_types_have_no_common_groups() -> None:
    def build(builder: StreamsBuilder) -> None:
        numbers = builder.stream("numbers", key=int, value=int).group_by_key()
        orders(builder).group_by_key().cogroup(lambda key, order, n: n + 1).cogroup(numbers, lambda key, value, n: n)

    assert refusal(build) == (
        "cogroup at HERE: the streams have keys of type str and int, so equal keys are not equal bytes. Bring one to "
        "the other's type with select_key"
    )


class Returns(Processor[str, Order]):
    def process(self, record: Any) -> Any:
        return record


@pytest.mark.parametrize("processor", [Returns, lambda record, context: record])
def test_a_processor_that_returns_its_record_in_place_of_forwarding_it_is_told(processor: Any) -> None:
    builder = StreamsBuilder()
    orders(builder).process(processor).to("out")
    driver = TopologyTestDriver(builder.build())
    with pytest.raises(ProcessingError) as failed:
        driver.pipe_input("in", "a", Order("x", 1))
    assert str(failed.value).splitlines()[0] == (
        "KSTREAM-PROCESSOR-0000000001 failed on the record at topic 'in', partition 0, offset 0: TypeError: the "
        "function returned a Record, which goes nowhere; send it on with context.forward(record)"
    )
