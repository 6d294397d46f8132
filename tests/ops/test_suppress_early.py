"""A suppression that holds as many records as it may: what goes early is worked out for a whole chunk at once, and
compared with the same buffer that may also hold a very large number of bytes, which takes its updates one by one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import BufferConfig, Suppressed, TimeWindows
from penstock.testing.cuts import CutDriver
from support.flows import pipe_rows, source

DELETE = "x"
NO_LIMIT = 2**60

SHAPES = st.fixed_dictionaries(
    {
        "rows": st.lists(
            st.tuples(*map(st.sampled_from, ("abcdefg", DELETE + "yz", (0, 0, 0, 1, 3, 9), (0, 0, 1, 2, 9)))),
            max_size=50,
        ),
        "wait": st.sampled_from([0, 3, 10, 1000]),
        "records": st.sampled_from([1, 2, 3, 5]),
        "windowed": st.booleans(),
        "asks_for_old": st.booleans(),
    }
)


@pytest.mark.kip("328-06")
@settings(max_examples=150, deadline=None)
@given(shape=SHAPES, chunk_records=st.sampled_from([3, 8, 1000]))
def test_a_full_buffer_lets_go_of_the_records_that_it_lets_go_of_one_by_one(shape: dict[str, Any], chunk_records: int):
    at_once = BufferConfig.max_records(shape["records"])
    assert run(shape, chunk_records, at_once) == run(shape, chunk_records, at_once.with_max_bytes(NO_LIMIT))


def run(shape: dict[str, Any], chunk_records: int, buffer: BufferConfig) -> Any:
    """All results and figures."""
    rows, now = [], 1000
    for key, value, back, on in shape["rows"]:
        now += on
        rows.append((key, value, now - back))
    builder, stream = source(value=str)
    grouped = stream.group_by_key()
    if shape["windowed"]:
        grouped = grouped.windowed_by(TimeWindows.of_size_and_grace(5, 3))
    table = grouped.reduce(lambda text, more: None if more == DELETE else text + more)
    table = table.suppress(Suppressed.until_time_limit(shape["wait"], buffer))
    if shape["asks_for_old"]:
        table = table.filter(lambda key, text: len(text) % 2 == 0)
    table.to_stream().to("out")
    with CutDriver(builder.build(), statestore_cache_max_bytes=0, chunk_records=chunk_records) as driver:
        pipe_rows(driver, rows)
        return [record[:3] for record in driver.read_output("out")], driver.metrics()


@pytest.mark.kip("328-09")
def test_records_of_a_full_buffer_are_never_taken_one_by_one(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delattr("penstock.ops.suppress.OneByOne")
    builder, stream = source(value=str)
    limited = Suppressed.until_time_limit("1 hour", BufferConfig.max_records(2))
    stream.to_table().suppress(limited).to_stream().to("out")
    rows = [(f"{number % 5}", "", number) for number in range(100)]
    with CutDriver(builder.build(), statestore_cache_max_bytes=0, chunk_records=30) as driver:
        pipe_rows(driver, rows)
        expected = [(f"{number % 5}", "", number) for number in range(98)]
        assert [record[:3] for record in driver.read_output("out")] == expected
