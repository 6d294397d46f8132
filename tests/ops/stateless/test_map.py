"""``map`` on streams."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock import columnar
from penstock.columns.batch import Batch, Placement
from penstock.columns.column import BytesColumn, NumberColumn, WindowedColumn
from penstock.ops.core.context import Context
from penstock.ops.core.functions import Caller
from penstock.ops.core.notes import Origin, TaskFacts
from penstock.ops.stateless.map import Map
from penstock.plan.functions import user_function
from penstock.serdes import BYTES, INT, STR, TimeWindowedSerde
from support.flows import Run, source
from support.stepping import stepped


def test_map_gives_new_keys_and_values_and_keeps_the_time(run: Run):
    builder, stream = source(value=int)
    stream.map(lambda key, value: (f"{key}-{value}", value * 2), value=int).to("out")
    assert run(builder, [("a", 1, 10), ("b", 2, 5), ("a", 3, 7)]).output() == [
        ("a-1", 2, 10),
        ("b-2", 4, 5),
        ("a-3", 6, 7),
    ]


def test_map_sees_and_may_give_null_keys_and_null_values(run: Run):
    builder, stream = source(value=str)
    stream.map(lambda key, value: (value, key), value=str).to("out")
    assert run(builder, [(None, "x", 1), ("a", None, 2), (None, None, 3)]).output() == [
        ("x", None, 1),
        (None, "a", 2),
        (None, None, 3),
    ]


def test_map_may_change_the_types_of_both(run: Run):
    builder, stream = source(value=str)
    stream.map(lambda key, value: (len(value), {"of": key}), key=int, value=dict).to("out")
    assert run(builder, [("a", "xyz", 1)]).output() == [(3, {"of": "a"}, 1)]


def test_a_columnar_mapper_returns_a_pair_of_arrays(run: Run):
    @columnar
    def swap(key, value):
        return value, pc.utf8_length(key)

    builder, stream = source(value=str)
    stream.map(swap, key=str, value=int).to("out")
    assert run(builder, [("abc", "x", 1), (None, "y", 2), ("d", None, 3)]).output() == [
        ("x", 3, 1),
        ("y", None, 2),
        (None, 1, 3),
    ]


def test_keys_that_a_columnar_mapper_gives_back_need_no_new_place():
    there, windows = Placement(1, 2), TimeWindowedSerde(STR, 10)
    keys, numbers = BytesColumn(STR.encode_all(["a", "b"]), STR), NumberColumn(np.array([7, 8]), INT)
    windowed = WindowedColumn(keys, np.array([0, 10]), np.array([10, 20]), windows)
    batch = Batch(windowed, numbers, np.array([5, 15]), (np.arange(2),), placed=there)
    facts = TaskFacts(task="0_0", origin=lambda at: Origin("in", 0, at, None, None, 0))

    def mapped(function, key):
        caller = Caller("map", user_function(columnar(function), "map", ("key", "value")), Context(facts))
        return stepped(Map(caller, key, INT), batch)

    plain = mapped(lambda key, value: (key.key, value), STR)
    assert (plain.key, plain.placed) == (keys, there)
    upper = mapped(lambda key, value: (pc.utf8_upper(key.key), value), STR)
    assert (upper.key.decoded(), upper.placed) == (["A", "B"], None)
    read_otherwise = mapped(lambda key, value: (key.key, value), BYTES)
    assert (read_otherwise.key.decoded(), read_otherwise.placed) == ([b"a", b"b"], None)


def test_a_columnar_mapper_may_return_values_of_any_serde(run: Run):
    @columnar
    def describe(key, value):
        return key, pa.array([{"length": len(text)} for text in value.to_pylist()])

    builder, stream = source(value=str)
    stream.map(describe, value=dict).to("out")
    assert run(builder, [("a", "xyz", 1)]).output() == [("a", {"length": 3}, 1)]
