"""A suppression that holds as much as it may: what goes early is worked out for many updates at once, and compared with
a buffer that takes its updates one by one, as the text has it (KIP-328)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock import BufferConfig, Suppressed, TimeWindows
from penstock.columns.batch import Changes
from penstock.columns.column import ValuesColumn
from penstock.errors import BufferFullError
from penstock.ops.core.context import Context
from penstock.ops.core.failures import Origin
from penstock.ops.core.notes import TaskFacts
from penstock.ops.suppress.operator import Suppress
from penstock.ops.suppress.rules import Limits
from penstock.serdes import STR
from penstock.state.clock import StreamTime
from penstock.state.kinds.buffer import TimeOrderedBuffer
from penstock.testing.cuts import CutDriver
from support.flows import pipe_rows, source
from support.stepping import stepped

TEXTS = ("", "y", "zz", "a longer text", None)

SHAPES = st.fixed_dictionaries(
    {
        "rows": st.lists(
            st.tuples(*map(st.sampled_from, ("abcdefg", TEXTS, (0, 0, 0, 1, 3, 9, 30), (0, 0, 1, 2, 9)))), max_size=60
        ),
        "wait": st.sampled_from([0, 3, 10, 1000]),
        "limits": st.tuples(
            st.sampled_from([None, None, 0, 1, 2, 3, 5]), st.sampled_from([None, 0, 40, 60, 100, 150, 250])
        ).filter(lambda limits: limits != (None, None)),
    }
)


class Entry(NamedTuple):
    time: int
    key: str
    text: str | None
    timestamp: int
    prior: str | None
    size: int


def one_by_one(shape: dict[str, Any], rows: list[tuple[str, str | None, int]]) -> list[tuple[Any, ...]]:
    """What is let go of, and in which order."""
    records, nbytes = (2**60 if limit is None else limit for limit in shape["limits"])
    table: dict[str, str | None] = {}
    buffer: dict[str, Entry] = {}
    stream_time, output = 0, []
    for key, text, timestamp in rows:
        stream_time = max(stream_time, timestamp)
        old = table.get(key)
        table[key] = text
        time, prior = (buffer[key].time, buffer[key].prior) if key in buffer else (timestamp, old)
        extra = None if prior == old else prior
        size = sum(len(part or "") for part in (key, text, old, extra)) + len("in") + 28
        buffer[key] = Entry(time, key, text, timestamp, prior, size)
        while buffer:
            oldest = min(buffer.values(), key=lambda entry: entry[:2])
            is_full = len(buffer) > records or sum(entry.size for entry in buffer.values()) > nbytes
            if oldest.time > stream_time - shape["wait"] and not is_full:
                break
            del buffer[oldest.key]
            output.append((oldest.key, oldest.text, oldest.timestamp))
    return output


# Late updates, which go before others that have come before them.
LATE_AND_FULL = {
    "rows": [
        *(("c", "zz", 0, 0), ("a", "y", 0, 4), ("b", "y", 0, 18), ("c", "y", 0, 4), ("c", "zz", 0, 0)),
        *(("b", "zz", 0, 2), ("a", "y", 0, 1), ("a", None, 30, 0), ("a", "zz", 2, 0)),
    ],
    "wait": 1000,
    "limits": (2, None),
}


# More is due than the entries that are looked at first, as many as there are updates.
DUE_AND_FULL = {
    "rows": [("a", "zz", 0, 0), ("c", "a longer text", 0, 0), ("b", "", 0, 1), ("a", "a longer text", 0, 9)],
    "wait": 3,
    "limits": (None, 150),
}


@pytest.mark.kip("328-06")
@pytest.mark.kip("328-09")
@settings(max_examples=200, deadline=None)
@example(shape=LATE_AND_FULL, chunk_records=1000)
@example(shape=DUE_AND_FULL, chunk_records=1)
@given(shape=SHAPES, chunk_records=st.sampled_from([3, 8, 1000]))
def test_a_full_buffer_lets_go_of_what_one_that_takes_updates_one_by_one_lets_go_of(
    shape: dict[str, Any], chunk_records: int
):
    rows, now = [], 1000
    for key, text, back, on in shape["rows"]:
        now += on
        rows.append((key, text, now - back))
    builder, stream = source(value=str)
    stream.to_table().suppress(Suppressed.until_time_limit(shape["wait"], limited(shape))).to_stream().to("out")
    with CutDriver(builder.build(), statestore_cache_max_bytes=0, chunk_records=chunk_records) as driver:
        pipe_rows(driver, rows)
        assert [record[:3] for record in driver.read_output("out")] == one_by_one(shape, rows)


@pytest.mark.kip("328-06")
@settings(max_examples=100, deadline=None)
@given(shape=SHAPES, windowed=st.booleans(), asks_for_old=st.booleans(), chunk_records=st.sampled_from([8, 1000]))
def test_results_and_figures_do_not_depend_on_how_many_updates_come_at_once(
    shape: dict[str, Any], windowed: bool, asks_for_old: bool, chunk_records: int
):
    def run(chunk_records: int) -> Any:
        builder, stream = source(value=str)
        grouped = stream.group_by_key()
        if windowed:
            grouped = grouped.windowed_by(TimeWindows.of_size_and_grace(5, 3))
        table = grouped.reduce(lambda text, more: None if more == "y" else text + more)
        table = table.suppress(Suppressed.until_time_limit(shape["wait"], limited(shape)))
        if asks_for_old:
            table = table.filter(lambda key, text: len(text) % 2 == 0)
        table.to_stream().to("out")
        now = 1000
        with CutDriver(builder.build(), statestore_cache_max_bytes=0, chunk_records=chunk_records) as driver:
            for key, text, back, on in shape["rows"]:
                now += on
                driver.pipe_input("in", key, text or "", now - back)
            return [record[:3] for record in driver.read_output("out")], driver.metrics()

    assert run(chunk_records) == run(1)


def limited(shape: dict[str, Any]) -> BufferConfig:
    records, nbytes = shape["limits"]
    if nbytes is None:
        return BufferConfig.max_records(records)
    buffer = BufferConfig.max_bytes(nbytes)
    return buffer if records is None else buffer.with_max_records(records)


@pytest.mark.kip("328-09")
def test_thousands_of_updates_of_changing_sizes_go_early_in_order():
    builder, stream = source(value=str)
    shape = {"wait": 10_000_000, "limits": (None, 2_000)}
    rows = [
        (f"{number * 7919 % 211}", "x" * (number * 31 % 17), number - number * 13 % 50) for number in range(1000, 4000)
    ]
    stream.to_table().suppress(Suppressed.until_time_limit(shape["wait"], limited(shape))).to_stream().to("out")
    with CutDriver(builder.build(), statestore_cache_max_bytes=0, chunk_records=2_000) as driver:
        pipe_rows(driver, rows)
        output = [record[:3] for record in driver.read_output("out")]
    assert output == one_by_one(shape, rows)
    assert len(output) > 2_000


@pytest.mark.kip("328-09")
def test_one_large_update_lets_go_of_many_small_ones():
    builder, stream = source(value=str)
    shape = {"wait": 1_000, "limits": (None, 1_700)}
    rows = [(f"{number:02}", "", number) for number in range(50)] + [("large", "x" * 1_500, 50), ("more", "", 51)]
    stream.to_table().suppress(Suppressed.until_time_limit(shape["wait"], limited(shape))).to_stream().to("out")
    with CutDriver(builder.build(), statestore_cache_max_bytes=0, chunk_records=1) as driver:
        pipe_rows(driver, rows)
        output = [record[:3] for record in driver.read_output("out")]
    assert output == one_by_one(shape, rows)
    assert output == [(f"{number:02}", "", number) for number in range(46)]


@pytest.mark.kip("328-08")
def test_a_buffer_that_is_full_before_the_last_update_of_a_chunk_says_at_which_one():
    facts = TaskFacts(task="0_0", origin=lambda at: Origin("in", 0, at, None, None, 0))
    buffer, limits = TimeOrderedBuffer("buffer", 1000, times_follow=False), Limits(1, shuts_down=True)
    suppress = Suppress("suppress", Context(facts), buffer, StreamTime(), False, limits, False, STR, STR)
    number, texts = np.arange(4), ValuesColumn(["a", "b", "c", "d"], STR)
    with pytest.raises(BufferFullError, match=r"Currently \[2/1\] records .* key 'b', timestamp 1\. Nothing"):
        stepped(suppress, Changes(texts, texts, number, (number,)))
