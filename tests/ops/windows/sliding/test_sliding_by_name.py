"""Aggregates by name in sliding windows go for whole columns of puts, and give what functions give."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from penstock import Count, EmitStrategy, SlidingWindows, StreamsBuilder, Sum
from penstock.plan.aggregates.together import Together
from penstock.testing.cuts import CutDriver
from support import by_name
from support.by_name import NAMED, Reading, Stats
from support.flows import pipe_rows


def added(key: str, value: Reading, kept: Stats | None) -> Stats:
    share, text = value.share, value.text
    if kept is None:
        return Stats(1, share, share, text, share, text, share, int(share is not None))
    shares = kept.shares + (share is not None)
    total = kept.total if share is None else share if kept.total is None else kept.total + share
    most = kept.most if share is None else share if kept.most is None else max(kept.most, share)
    mean = None if total is None else total / shares
    return Stats(kept.n + 1, total, mean, min(kept.least, text), most, kept.first, share, shares)


def rows_of(seed: int, records: int) -> list[Any]:
    """Records of some keys, mostly but not always in order, and from before the first whole window on."""
    chance = random.Random(seed)
    rows = []
    for n in range(records):
        reading = Reading(chance.choice([None, chance.uniform(-5, 5)]), chance.choice(["a", "b", "ü"]))
        late = chance.choice([0, 0, 0, 3, 12, 40])
        rows.append((chance.choice(["x", "x", "y", f"rare {n % 40}"]), reading, max(n - late, 0)))
    return rows


def results(rows: list[Any], by: str, chunk: int = 1000, is_final: bool = False) -> list[Any]:
    builder = StreamsBuilder()
    windows = SlidingWindows.of_time_difference_and_grace(6, 15)
    groups: Any = builder.stream("in", key=str, value=Reading).group_by_key().windowed_by(windows)
    groups = groups.emit_strategy(EmitStrategy.on_window_close()) if is_final else groups
    table = groups.aggregate(lambda: None, added, value=Stats) if by == "functions" else groups.aggregate(**NAMED)
    return by_name.results(table, builder, rows, chunk)


@pytest.mark.parametrize("is_final", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_sliding_windows_give_what_functions_give(seed: int, is_final: bool, monkeypatch: pytest.MonkeyPatch):
    rows = rows_of(seed, 400)
    by_functions = results(rows, "functions", is_final=is_final)
    assert len(by_functions) > 400
    assert results(rows, "names", chunk=70, is_final=is_final) == by_functions
    monkeypatch.setattr(Together, "add", None)  # no record goes by itself
    assert results(rows, "names", is_final=is_final) == by_functions


def test_a_record_that_fails_leaves_its_windows_as_they_were():
    builder = StreamsBuilder()
    windows = SlidingWindows.of_time_difference_and_grace(4, 30)
    groups: Any = builder.stream("in", key=str, value=int).group_by_key().windowed_by(windows)
    groups.aggregate(n=Count(), total=Sum(lambda value: 12 // value)).to_stream().to("out")
    with CutDriver(builder.build(), statestore_cache_max_bytes=0, on_error="skip") as driver:
        pipe_rows(driver, [("a", 4, 10), ("a", 0, 11), ("a", 2, 12)])
        written = [(record.key.start, *msgspec.structs.astuple(record.value)) for record in driver.read_output("out")]
    assert written == [(6, 1, 3), (11, 1, 6), (8, 2, 9)]
