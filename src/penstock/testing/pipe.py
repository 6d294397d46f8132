"""Try out a few steps on a few records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock.dsl.builder import StreamsBuilder
from penstock.dsl.kstream import KStream
from penstock.dsl.ktable import KTable
from penstock.testing.driver import TopologyTestDriver


def pipe(
    steps: Callable[[KStream[Any, Any]], KStream[Any, Any] | KTable[Any, Any]],
    records: Sequence[tuple[Any, ...]],
    key: Any = str,
    value: Any = None,
) -> list[tuple[Any, Any]]:
    """What comes out of some steps for some records, as pairs of key and value.

    Args:
        steps: a function from a stream to the stream or table whose records are wanted.
        records: (key, value) or (key, value, timestamp); without a timestamp it is the record's number.
        key: the type of the keys that go in.
        value: the type of the values that go in; anything JSON can say by default.

    >>> pipe(lambda stream: stream.map_values(str.upper), [("a", "hello")])
    [('a', 'HELLO')]
    """
    builder = StreamsBuilder()
    result = steps(builder.stream("in", key=key, value=value))
    (result.to_stream() if isinstance(result, KTable) else result).to("out")
    driver = TopologyTestDriver(builder.build())
    for number, record in enumerate(records):
        driver.pipe_input("in", record[0], record[1], record[2] if len(record) > 2 else number)
    return [(record.key, record.value) for record in driver.read_output("out")]
