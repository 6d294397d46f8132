"""What streams, tables, stores and drivers look like in a notebook or an error."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from penstock import SessionWindows, StreamsBuilder, TimeWindows
from penstock.testing import TopologyTestDriver


def test_streams_and_tables_say_their_types_their_step_and_their_line():
    builder = StreamsBuilder()
    stream = builder.stream("in", value=int)
    table = stream.group_by_key().count("counts", name="counted")
    kinds = [
        stream,
        stream.map_values(str, value=str, name="mapped"),
        stream.group_by_key(),
        table,
        table.group_by(lambda key, value: (key, value), name="again"),
        builder.global_table("all", key=int, value=bytes, name="all"),
    ]
    here = re.escape(str(Path(__file__)))
    expected = [
        "KStream str -> int of KSTREAM-SOURCE-0000000000",
        "KStream str -> str of mapped",
        "KGroupedStream str -> int of KSTREAM-SOURCE-0000000000",
        "KTable str -> int of counted",
        "KGroupedTable str -> int of again",
        "GlobalKTable int -> bytes of all",
    ]
    for kind, text in zip(kinds, expected, strict=True):
        assert re.fullmatch(f"<{text} at {here}:[0-9]+>", repr(kind)), repr(kind)


def test_windowed_streams_say_their_windows():
    grouped = StreamsBuilder().stream("in").group_by_key()
    for windows in (TimeWindows.of_size_with_no_grace(10), SessionWindows.of_inactivity_gap_with_no_grace(5)):
        assert repr(grouped.windowed_by(windows)).endswith(f"of {grouped!r} in {windows}>")  # type: ignore[call-overload]


def test_drivers_and_stores_say_what_they_are_and_whether_they_are_closed():
    builder = StreamsBuilder()
    builder.stream("in").group_by_key().count("counts").to_stream().to("out")
    driver = TopologyTestDriver(builder.build())
    shown = "<TopologyTestDriver of <Topology of 4 steps in 1 sub-topologies>: "
    assert repr(driver) == f"{shown}reads in>"
    store = driver.store("counts")
    assert repr(store) == "<KeyValueView of store 'counts' in 1 task>"
    store.close()
    assert repr(store) == "<KeyValueView of store 'counts' in 1 task, closed>"
    driver.close()
    assert repr(driver) == f"{shown}closed>"


@pytest.mark.parametrize("path", ["at", "order.at"])
def test_a_field_may_be_the_time(path):
    builder = StreamsBuilder()
    builder.stream("in", value=dict, timestamp=path).to("out")
    driver = TopologyTestDriver(builder.build())
    for at in (7, "1970-01-01T00:00:00.008Z", "1970-01-01 01:00:00.009+01:00"):
        driver.pipe_input("in", "a", {"at": at, "order": {"at": at}}, 100)
    assert [record.timestamp for record in driver.read_output("out")] == [7, 8, 9]
