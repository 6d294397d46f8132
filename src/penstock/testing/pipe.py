"""Try out a few steps on a few records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock.dsl.builder import StreamsBuilder
from penstock.dsl.kstream import KStream
from penstock.dsl.ktable import KTable
from penstock.errors import ConfigError
from penstock.messages import show
from penstock.plan.functions import user_function
from penstock.testing.driver import TopologyTestDriver
from penstock.testing.records import checked_row, listed
from penstock.usage.signatures import telling


@telling
def pipe(
    steps: Callable[[KStream[Any, Any]], KStream[Any, Any] | KTable[Any, Any]],
    records: Sequence[tuple[Any, ...]],
    key: Any = str,
    value: Any = None,
) -> list[tuple[Any, Any]]:
    """Run some steps over some records, and return the results as pairs of key and value.

    Args:
        steps: a function that takes a stream, and returns the stream or table whose records you want.
        records: (key, value) or (key, value, timestamp). The default timestamp is the record's number.
        key: the type of the input keys.
        value: the type of the input values; by default any JSON.

    >>> pipe(lambda stream: stream.map_values(str.upper), [("a", "hello")])
    [('a', 'HELLO')]

    Raises:
        TopologyError: ``steps`` is not a function of a stream.
        ConfigError: the function returns neither a stream nor a table, or a record has another form.
    """
    user_function(steps, "pipe", ("stream",))
    rows = [checked_row("in", tuple(one) if isinstance(one, list) else one) for one in listed(records, "pipe")]
    builder = StreamsBuilder()
    result = steps(builder.stream("in", key=key, value=value))
    if not isinstance(result, KStream | KTable):
        raise ConfigError(
            f"pipe takes a function that returns the stream or the table whose records are wanted; this one returned "
            f"{show(result)} of type {type(result).__name__}"
        )
    (result.to_stream() if isinstance(result, KTable) else result).to("out")
    driver = TopologyTestDriver(builder.build())
    for number, (its_key, its_value, *rest) in enumerate(rows):
        driver.pipe_input("in", its_key, its_value, *(rest or [number]))
    return [(record.key, record.value) for record in driver.read_output("out")]
