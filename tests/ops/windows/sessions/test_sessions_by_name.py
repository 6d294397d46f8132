"""Aggregates by name in sessions go for whole columns, and give what functions give, however sessions merge."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from penstock import (
    ApproxDistinct,
    Count,
    EmitStrategy,
    SessionWindows,
    StreamsBuilder,
    Sum,
)
from penstock.ops.windows.sessions import named
from penstock.plan.aggregates.together import Together
from penstock.testing.cuts import CutDriver
from support import by_name
from support.by_name import NAMED, Reading, Stats
from support.flows import pipe_rows


def added(one: float | None, other: float | None) -> float | None:
    return other if one is None else one if other is None else one + other


def larger(one: float | None, other: float | None) -> float | None:
    return other if one is None else one if other is None else max(one, other)


def of_two(one: Stats | None, other: Stats | None) -> Stats | None:
    """Return what functions make of two sessions, or of a session and a record."""
    if one is None or other is None:
        return one or other
    total, shares = added(one.total, other.total), one.shares + other.shares
    mean = None if total is None else total / shares
    most = larger(one.most, other.most)
    return Stats(one.n + other.n, total, mean, min(one.least, other.least), most, one.first, other.last, shares)


def of_one(value: Reading) -> Stats:
    share = value.share
    return Stats(1, share, share, value.text, share, value.text, share, int(share is not None))


def rows_of(seed: int, records: int) -> list[Any]:
    """Records of some keys whose sessions grow at both ends, merge two and three at a time, and close."""
    chance = random.Random(seed)
    rows = []
    for n in range(records):
        share = chance.choice([None, chance.uniform(-5, 5)])
        reading = Reading(share, chance.choice(["a", "b", "ü"]))
        rows.append((chance.choice(["x", "x", "y", f"rare {n % 60}"]), reading, n // 3 + chance.randint(0, 40)))
    return rows


def results(rows: list[Any], by: str, chunk: int = 1000, is_final: bool = False) -> list[Any]:
    builder = StreamsBuilder()
    windows = SessionWindows.of_inactivity_gap_and_grace(3, 30)
    groups: Any = builder.stream("in", key=str, value=Reading).group_by_key().windowed_by(windows)
    groups = groups.emit_strategy(EmitStrategy.on_window_close()) if is_final else groups
    if by == "functions":

        def add(key: str, value: Reading, kept: Stats | None) -> Stats | None:
            return of_two(kept, of_one(value))

        table = groups.aggregate(lambda: None, add, lambda key, one, other: of_two(one, other), value=Stats)
    else:
        table = groups.aggregate(**NAMED)
    return by_name.results(table, builder, rows, chunk)


@pytest.mark.parametrize("is_final", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_sessions_give_what_functions_give(seed: int, is_final: bool, monkeypatch: pytest.MonkeyPatch):
    rows = rows_of(seed, 500)
    by_functions = results(rows, "functions", is_final=is_final)
    assert len(by_functions) > (100 if is_final else 400)
    assert results(rows, "names", chunk=70, is_final=is_final) == by_functions
    monkeypatch.setattr(Together, "add", None)  # no record goes by itself
    assert results(rows, "names", is_final=is_final) == by_functions


def test_sessions_that_merge_too_often_go_record_by_record(monkeypatch: pytest.MonkeyPatch):
    rows = rows_of(9, 300)
    by_functions = results(rows, "functions")
    monkeypatch.setattr(named, "_MOST_WAITS", 1)
    assert results(rows, "names") == by_functions


def test_a_record_that_fails_leaves_its_session_as_it_was():
    builder = StreamsBuilder()
    windows = SessionWindows.of_inactivity_gap_and_grace(3, 30)
    groups: Any = builder.stream("in", key=str, value=int).group_by_key().windowed_by(windows)
    groups.aggregate(n=Count(), total=Sum(lambda value: 12 // value), kinds=ApproxDistinct()).to_stream().to("out")
    with CutDriver(builder.build(), statestore_cache_max_bytes=0, on_error="skip") as driver:
        pipe_rows(driver, [("a", 4, 10), ("a", 2, 16), ("a", 0, 13), ("a", 4, 13)])
        written = [record.value and msgspec.structs.astuple(record.value) for record in driver.read_output("out")]
    assert written == [(1, 3, 1), (1, 6, 1), None, None, (3, 12, 2)]
