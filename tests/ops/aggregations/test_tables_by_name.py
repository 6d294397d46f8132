"""Aggregates by name of grouped tables are computed for whole columns, and give what functions give."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from penstock import Collect, Count, Mean, StreamsBuilder, Sum
from penstock.plan.aggregates.together import Together
from penstock.testing import TopologyTestDriver
from penstock.testing.cuts import CutDriver
from support import by_name
from support.flows import pipe_rows


class Order(msgspec.Struct):
    user: str
    whole: int | None
    share: float | None


class Stats(msgspec.Struct):
    """What functions keep: fields as aggregates by name give them, and how many numbers there are."""

    n: int
    paid: int
    whole: int | None
    share: float | None
    mean: float | None
    shares: int


NAMED: dict[str, Any] = {
    "n": Count(),
    "paid": Count("whole"),
    "whole": Sum("whole"),
    "share": Sum("share"),
    "mean": Mean("share"),
    "shares": Count("share"),
}


def added(key: str, order: Order, kept: Stats | None) -> Stats:
    kept = kept or Stats(0, 0, None, None, None, 0)
    paid, shares = kept.paid + (order.whole is not None), kept.shares + (order.share is not None)
    whole = kept.whole if order.whole is None else (kept.whole or 0) + order.whole
    share = kept.share if order.share is None else order.share if kept.share is None else kept.share + order.share
    return Stats(kept.n + 1, paid, whole, share, None if share is None else share / shares, shares)


def taken(key: str, order: Order, kept: Stats) -> Stats | None:
    if kept.n == 1:
        return None
    paid, shares = kept.paid - (order.whole is not None), kept.shares - (order.share is not None)
    whole = kept.whole if order.whole is None else (kept.whole or 0) - order.whole
    share = kept.share if order.share is None else (kept.share or 0) - order.share
    share = share if shares else None
    return Stats(kept.n - 1, paid, whole if paid else None, share, None if share is None else share / shares, shares)


def rows_of(seed: int, kind: str) -> list[Any]:
    """Rows of a table that come, change their group or their numbers, and go."""
    chance = random.Random(f"{seed}{kind}")
    rows = []
    for n in range(600):
        whole, share = chance.choice([None, chance.randint(-9, 9)]), chance.choice([None, chance.uniform(-9, 9)])
        if kind == "large":
            whole = chance.choice([None, 2**58, -(2**58)])
        user = chance.choice(["ann", "ann", "bob", f"rare {n % 90}"])
        order = None if chance.random() < 0.2 else Order(user, whole, share)
        rows.append((str(chance.randint(0, 60)), order, n))
    return rows


def results(rows: list[Any], by: str, chunk: int = 1000) -> list[Any]:
    builder = StreamsBuilder()
    table = builder.table("in", key=str, value=Order)
    groups: Any = table.group_by(lambda key, order: (order.user, order), key=str)
    if by == "functions":
        stats = groups.aggregate(lambda: None, added, taken, value=Stats)
    else:
        stats = groups.aggregate(**NAMED)
    return by_name.results(stats, builder, rows, chunk)


@pytest.mark.parametrize("kind", ["plain", "large"])
@pytest.mark.parametrize("seed", range(3))
def test_tables_give_what_functions_give(seed: int, kind: str, monkeypatch: pytest.MonkeyPatch):
    rows = rows_of(seed, kind)
    by_functions = results(rows, "functions")
    assert len(by_functions) > 500
    assert any(value == "None" for _, value, _ in by_functions)
    assert results(rows, "names", chunk=70) == by_functions
    if kind == "plain":
        monkeypatch.setattr(Together, "add", None)  # no row goes by itself
        monkeypatch.setattr(Together, "subtract", None)
    assert results(rows, "names") == by_functions


def test_a_sum_without_numbers_begins_anew():
    builder = StreamsBuilder()
    groups: Any = builder.table("in", key=str, value=Order).group_by(lambda key, order: ("all", order), key=str)
    groups.aggregate(n=Count(), share=Sum("share"), mean=Mean("share")).to_stream().to("out")
    shares = [("1", 0.1), ("2", 0.2), ("3", None), ("1", None), ("2", None), ("2", 0.3)]
    with CutDriver(builder.build(), statestore_cache_max_bytes=0) as driver:
        pipe_rows(driver, [(key, Order("x", None, share), 1) for key, share in shares])
        written = [msgspec.structs.astuple(record.value) for record in driver.read_output("out")]
    assert written == [
        (1, 0.1, 0.1),
        (2, 0.1 + 0.2, (0.1 + 0.2) / 2),
        (3, 0.1 + 0.2, (0.1 + 0.2) / 2),
        (3, 0.1 + 0.2 - 0.1, 0.1 + 0.2 - 0.1),
        (3, None, None),
        (3, 0.3, 0.3),
    ]


def test_a_change_that_fails_leaves_its_group_as_it_was():
    builder = StreamsBuilder()
    groups: Any = builder.table("in", key=str, value=int).group_by(lambda key, value: ("all", value), key=str)
    groups.aggregate(n=Count(), total=Sum(lambda value: 12 // value)).to_stream().to("out")
    with CutDriver(builder.build(), statestore_cache_max_bytes=0, on_error="skip") as driver:
        pipe_rows(driver, [("1", 4, 1), ("2", 0, 2), ("3", 6, 3), ("1", None, 4)])
        written = [msgspec.structs.astuple(record.value) for record in driver.read_output("out")]
    assert written == [(1, 3), (2, 5), (1, 2)]


EQUAL: dict[str, tuple[Any, Any, list[Any]]] = {
    "a truth and a number": (True, 1, [True]),
    "a float and a whole number": (1.0, 1, [1.0]),
    "nested": ({"n": True}, {"n": 1}, [{"n": True}]),
    "a tuple": ((1, 2), (3, 4), [[1, 2]]),
}


@pytest.mark.parametrize("what", EQUAL)
def test_collect_takes_out_the_value_itself_and_no_equal_one(what: str):
    stays, goes, left = EQUAL[what]
    builder = StreamsBuilder()
    table = builder.table("in", key=str, value=dict).group_by(lambda key, value: ("g", value))
    is_first = {"a": stays, "b": goes}
    table.aggregate(all=Collect(lambda value: is_first[value["is"]])).to_stream().to("out")
    driver = TopologyTestDriver(builder.build())
    for key, value in (("a", {"is": "a"}), ("b", {"is": "b"}), ("b", None)):
        driver.pipe_input("in", key, value)
    [*_, last] = driver.read_output("out")
    assert repr(last.value.all) == repr(left)


def test_collect_takes_nan_out():
    builder = StreamsBuilder()
    table = builder.table("in", key=str, value=float).group_by(lambda key, value: ("g", value))
    table.aggregate(all=Collect()).to_stream().to("out")
    driver = TopologyTestDriver(builder.build())
    for key, value in (("a", float("nan")), ("b", 1.0), ("a", None)):
        driver.pipe_input("in", key, value)
    [*_, last] = driver.read_output("out")
    assert last.value.all == [1.0]
