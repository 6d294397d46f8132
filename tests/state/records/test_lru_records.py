"""Stores that forget what was not used for longest, against an ordered dictionary under any sequence of calls."""

from collections import OrderedDict

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import invariant, rule

from penstock import Stores
from penstock.engine.shared.stores import store_of
from penstock.errors import StoreError
from penstock.record import ValueAndTimestamp
from penstock.serdes import INT, JSON, STR
from penstock.state.columns.rows import Keys
from penstock.state.kinds.lru import LruStore
from penstock.state.records import record_view
from support.record_machine import RecordMachine
from support.rows import as_tuples, binary

texts = st.sampled_from(["", "a", "ab", "b", "c", "d"])
SIZE = 3


class LruMachine(RecordMachine):
    """The model is in order of use."""

    keys, values = texts, st.integers(-2, 2)
    key, value = STR, INT
    timestamped = False

    def new_store(self):
        return LruStore("store", SIZE)

    def new_view(self, store):
        return record_view(store, self.key, self.value, self.timestamped)

    def new_model(self):
        return OrderedDict()

    def drawn(self, data):
        value = data.draw(st.none() | self.values)
        if value is None or not self.timestamped:
            return value
        return ValueAndTimestamp(value, data.draw(st.integers(-1, 9)))

    def write(self, key, value) -> None:
        self.current.pop(key, None)
        if value is not None:
            self.current[key] = value
        if len(self.current) > SIZE:
            self.current.popitem(last=False)

    def read(self, key):
        if key in self.current:
            self.current.move_to_end(key)
        return self.current.get(key)

    @rule(key=texts)
    def get(self, key) -> None:
        assert self.view.get(key) == self.read(key)

    @rule(data=st.data(), key=texts)
    def put(self, data, key) -> None:
        value = self.drawn(data)
        self.view.put(key, value)
        self.write(key, value)

    @rule(data=st.data(), key=texts)
    def put_if_absent(self, data, key) -> None:
        value = self.drawn(data)
        there = self.read(key)
        assert self.view.put_if_absent(key, value) == there
        if there is None:
            self.write(key, value)

    @rule(data=st.data(), keys=st.lists(texts, max_size=5))
    def put_all(self, data, keys) -> None:
        entries = [(key, self.drawn(data)) for key in keys]
        self.view.put_all(entries)
        for entry in entries:
            self.write(*entry)

    @rule(key=texts)
    def delete(self, key) -> None:
        assert self.view.delete(key) == self.current.pop(key, None)

    @rule(low=st.none() | texts, high=st.none() | texts)
    def range(self, low, high) -> None:
        inside = sorted(key for key in self.current if (low is None or key >= low) and (high is None or key <= high))
        assert list(self.view.range(low, high)) == [(key, self.current[key]) for key in inside]

    @invariant()
    def all_entries_are_there(self) -> None:
        assert list(self.view.all()) == sorted(self.current.items())
        assert self.view.approximate_num_entries() == len(self.current)


class TimestampedMachine(LruMachine):
    timestamped = True
    values, value = st.dictionaries(st.sampled_from("xy"), st.integers(0, 3), max_size=2), JSON


class WithoutADiskMachine(LruMachine):
    persistent = False


for machine in (LruMachine, TimestampedMachine):
    machine.TestCase.settings = settings(max_examples=settings.default.max_examples // 4)

TestOverADatabase = pytest.mark.kip("KS-03")(LruMachine.TestCase)
TestTimestamped = TimestampedMachine.TestCase
TestWithoutADisk = WithoutADiskMachine.TestCase


def opened(size, store=None):
    view = record_view(store or LruStore("recent", size), STR, INT, timestamped=False)
    view.begin()
    return view


@pytest.mark.kip("KS-03")
def test_the_order_of_use_goes_on_in_another_process_that_has_the_committed_rows_only():
    supplier = Stores.lru_map("recent", 2)
    store, other = (store_of(Stores.key_value_store_builder(supplier, str, int).spec) for _ in range(2))
    view = opened(2, store)
    view.put_all([("a", 1), ("b", 2)])
    view.end()
    view.begin()
    view.get("a")
    view.end()
    other.apply(store.changes())
    view = opened(2, other)
    view.put("c", 3)
    assert list(view.all()) == [("a", 1), ("c", 3)]


def test_a_store_of_no_entries_keeps_none():
    view = opened(0)
    view.put("a", 1)
    assert (view.get("a"), list(view.all())) == (None, [])


def test_from_outside_it_reads_like_any_key_value_store():
    store = LruStore("recent", 5)
    view = record_view(store, STR, INT)
    view.begin()
    view.put("a", ValueAndTimestamp(1, 70))
    view.end()
    assert list(store.range()) == list(store.prefix_scan(b"a")) == [(b"a", INT.encode(1), 70)]
    assert store.get_one(b"a") == (INT.encode(1), 70)
    assert as_tuples(store.get(Keys(binary(b"b", b"a")))) == [None, (INT.encode(1), 70)]


def test_it_cannot_be_used_when_its_chunk_is_over():
    view = opened(1)
    view.put("a", 1)
    view.end()
    for call in (lambda: view.get("a"), lambda: view.put("a", 1), lambda: view.delete("a"), lambda: view.all()):
        with pytest.raises(StoreError, match="'recent' can only be used while"):
            call()
