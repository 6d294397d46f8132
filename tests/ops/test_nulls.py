"""A null is what the deserializer gives: bytes that decode to None are null keys and values for every operator.

Each topology of ``support/topologies.py`` runs over records with nulls, and over the same records with bytes in their
places that decode to None. Neither outputs nor stores nor drops tell the one from the other.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock import Topology
from penstock.plan.rewriting import Rewriting
from penstock.serdes import INT, STR, JsonSerde, Serde, SessionWindowedSerde, TimeWindowedSerde
from penstock.serdes.nullable import NullableSerde
from penstock.serdes.pair import PairSerde
from penstock.testing import TopologyTestDriver
from penstock.testing.cuts import CutDriver
from support.flows import Driver, Row, Run
from support.topologies import EXAMPLES, topology_of

UNCACHED = {"statestore_cache_max_bytes": 0}
FEW = settings(max_examples=max(3, settings.default.max_examples // 16))


class Own(Serde):
    """A format of a user's: text, in which a question mark stands for nothing."""

    def __init__(self, type_: type):
        self.type = type_
        self.name = f"own[{type_.__name__}]"

    def encode(self, value: Any) -> bytes | None:
        return None if value == "nothing" else repr(value).encode()

    def decode(self, data: bytes) -> Any:
        return None if data == b"?" else json.loads(data.replace(b"'", b'"'))


JSON_NULLS = [b"null", b" null", b"\tnull\r\n"]
FORMATS: dict[str, tuple[dict[type, Serde], list[bytes]]] = {
    "JSON": ({int: JsonSerde(int), str: JsonSerde(str)}, JSON_NULLS),
    "of a user": ({int: Own(int), str: Own(str)}, [b"?"]),
}
"""For each format its types, and the bytes that decode to None."""


class Written(Rewriting):
    """Has texts and numbers written in another format."""

    def __init__(self, types: dict[type, Serde]):
        super().__init__()
        self._types = types

    def serde(self, one: Serde) -> Serde:
        if one in (INT, STR):
            return self._types[int if one == INT else str]
        if isinstance(one, PairSerde):
            return PairSerde(self.serde(one.first), self.serde(one.second))
        if isinstance(one, TimeWindowedSerde):
            return TimeWindowedSerde(self.serde(one.inner), one.size)
        if isinstance(one, SessionWindowedSerde | NullableSerde):
            return type(one)(self.serde(one.inner))
        return one


def rows_of(topology: Topology) -> st.SearchStrategy[list[Row]]:
    topics = [topic for topic in topology.source_topics if topic not in topology.sink_topics]
    row = st.tuples(
        st.sampled_from(topics),
        st.sampled_from(["a", "b", None]),
        st.sampled_from([1, 2, 3, None, None]),
        st.integers(0, 30) | st.sampled_from([100, 1000]),
    )
    return st.lists(row, max_size=20)


def results(driver: Driver, rows: Sequence[Row]) -> list[Any]:
    """Outputs, stores and drops."""
    for row in rows:
        driver.pipe_input(*row)
    topics = [*driver.topology.sink_topics, *(["out", "aside"] if driver.topology.dynamic_sinks else [])]
    stores = {name: sorted(driver.store(name).all(), key=repr) for name in driver.topology.facts.named()}
    return [{topic: driver.read_output(topic) for topic in topics}, stores, driver.metrics()]


@pytest.mark.kip("KS-22")
@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("format_", FORMATS)
@FEW
@given(data=st.data())
def test_bytes_that_decode_to_none_are_nulls(name: str, format_: str, data: st.DataObject) -> None:
    types, nulls = FORMATS[format_]
    topology = topology_of(name)
    written = Written(types)
    topology = Topology(written.of(topology.declared), written.of(topology._stores.values()))
    with_nulls = data.draw(rows_of(topology), "rows")
    null = st.sampled_from(nulls)
    with_bytes = [tuple(data.draw(null) if field is None else field for field in row) for row in with_nulls]
    expected = results(TopologyTestDriver(topology, **UNCACHED), with_nulls)
    assert results(TopologyTestDriver(topology, **UNCACHED), with_bytes) == expected
    with CutDriver(topology, data.draw(st.randoms(use_true_random=False), "cuts"), **UNCACHED) as cut:
        assert results(cut, with_bytes) == expected
