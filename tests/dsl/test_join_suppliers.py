"""The stores of a stream-stream join that are given by suppliers: what Kafka Streams asks of them."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import ConfigError, JoinWindows, Stores, StreamJoined, StreamsBuilder, Topology
from support.own_timed_stores import TimedSupplier

pytestmark = pytest.mark.kip("KS-20")

WITHIN = JoinWindows.of_time_difference_and_grace("4 ms", "8 ms")


def store(name: str, retention: int = 16, size: int = 8, retain_duplicates: bool = True) -> Any:
    return Stores.in_memory_window_store(name, retention, size, retain_duplicates=retain_duplicates)


def joined(how: StreamJoined) -> Topology:
    builder = StreamsBuilder()
    left, right = builder.stream("left", str, str), builder.stream("right", str, str)
    left.join(right, lambda a, b: a + b, WITHIN, how, value=str).to("out")
    return builder.build()


@pytest.mark.parametrize("kind", [store, lambda name: TimedSupplier("memory", "duplicates", name, 16, 8)])
def test_the_stores_of_a_join_have_the_names_of_their_suppliers(kind):
    how = StreamJoined().with_this_store_supplier(kind("a")).with_other_store_supplier(kind("b"))
    assert {spec.name for spec in joined(how).facts.stores.values()} == {"a", "b"}


def test_suppliers_that_do_not_fit_a_join_are_refused():
    with pytest.raises(ConfigError, match="must keep every record of a key and time"):
        StreamJoined().with_this_store_supplier(store("a", retain_duplicates=False))
    with pytest.raises(ConfigError, match="keeps its records in window stores"):
        StreamJoined().with_other_store_supplier(TimedSupplier("memory", "session"))
    with pytest.raises(ConfigError, match=r"windows of 9 ms and a retention of 16 ms, but the join at .* needs 8 ms"):
        joined(StreamJoined().with_this_store_supplier(store("a", size=9)))
    with pytest.raises(ConfigError, match="both stores of a join are called 'a'"):
        joined(StreamJoined().with_this_store_supplier(store("a")).with_other_store_supplier(store("a")))
