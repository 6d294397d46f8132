"""Window stores record by record, against a plain dictionary under any sequence of calls."""

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import initialize, invariant, rule

from penstock.columns.column import ValuesColumn
from penstock.errors import SerdeError, StoreError
from penstock.record import ValueAndTimestamp, Windowed
from penstock.serdes import INT, JSON, STR
from penstock.state.kinds.duplicates import DuplicateWindowStore
from penstock.state.kinds.sliding import SlidingStore
from penstock.state.kinds.window import WindowStore
from penstock.state.records import record_view
from support.record_machine import RecordMachine

RETENTION, INTERVAL, SIZE = 20, 8, 5
texts = st.sampled_from(["", "a", "ab", "b"])
times = st.integers(0, 60)


class WindowMachine(RecordMachine):
    """The model is a dictionary by start and key, and the store's stream time."""

    keys, values = texts, st.integers(-2, 2)
    key, value = STR, INT
    timestamped = in_memory = False

    def new_store(self):
        return WindowStore("store", RETENTION, self.in_memory, INTERVAL)

    def new_view(self, store):
        return record_view(store, self.key, self.value, self.timestamped, SIZE)

    @initialize()
    def start(self):
        super().start()
        self.current = ({}, -1)

    def new_model(self):
        return {}, -1

    def rows(self, reverse=False):
        rows, now = self.current
        visible = [(start, key) for start, key in rows if start > now - RETENTION]
        if not self.in_memory:
            return sorted(
                visible, key=lambda at: (at[0] // INTERVAL, at[1].encode() + b"%016x" % at[0]), reverse=reverse
            )
        return sorted(visible, key=lambda at: (at[0], at[1].encode()), reverse=reverse)

    def shown(self, places):
        return [(Windowed(key, start, start + SIZE), self.current[0][start, key]) for start, key in places]

    def found(self, key, start):
        rows, now = self.current
        return rows.get((start, key)) if start > now - RETENTION else None

    @rule(data=st.data(), key=texts, start=times)
    def put(self, data, key, start) -> None:
        value = data.draw(st.none() | self.values)
        if value is not None and self.timestamped:
            value = ValueAndTimestamp(value, data.draw(st.integers(-1, 9)))
        self.view.put(key, value, start)
        rows, now = self.current
        now = max(now, start)
        rows.pop((start, key), None)
        if value is not None and start > now - RETENTION:
            rows[start, key] = value
        self.current = rows, now

    @rule(key=texts, start=times)
    def get(self, key, start) -> None:
        assert self.view.get(key, start) == self.found(key, start)

    @rule(start=times)
    def get_many(self, start) -> None:
        for key in ["", "a", "ab", "b", *(f"k{number}" for number in range(30))]:
            assert self.view.get(key, start) == self.found(key, start)

    @rule(key=texts, first=times, last=times)
    def fetch(self, key, first, last) -> None:
        starts = sorted(start for start, other in self.rows() if other == key and first <= start <= last)
        expected = [(start, self.current[0][start, key]) for start in starts]
        assert list(self.view.fetch(key, first, last)) == expected
        assert list(self.view.backward_fetch(key, first, last)) == expected[::-1]

    @rule(low=st.none() | texts, high=st.none() | texts, first=times, last=times)
    def fetch_range(self, low, high, first, last) -> None:
        for reverse, call in ((False, self.view.fetch_range), (True, self.view.backward_fetch_range)):
            inside = [at for at in self.rows(reverse) if first <= at[0] <= last]
            inside = [(s, k) for s, k in inside if (low is None or k >= low) and (high is None or k <= high)]
            assert list(call(low, high, first, last)) == self.shown(inside)

    @rule(data=st.data(), key=texts, start=times)
    def write_while_iterating(self, data, key, start) -> None:
        rows, before = self.view.all(), self.shown(self.rows())
        self.put(data, key, start)
        assert list(rows) == before

    @rule()  # and no invariant: it brings what was changed into the columns
    def all_rows_are_there(self) -> None:
        assert list(self.view.all()) == list(self.view.fetch_all()) == self.shown(self.rows())
        assert list(self.view.backward_all()) == list(self.view.backward_fetch_all()) == self.shown(self.rows(True))


class InMemoryMachine(WindowMachine):
    in_memory = timestamped = True


class WithoutADiskMachine(WindowMachine):
    persistent = False
    values, value = st.dictionaries(st.sampled_from("xy"), st.integers(0, 3), max_size=2), JSON


class SlidingMachine(WindowMachine):
    """The store of a table with sliding windows, which packs several windows into a row."""

    timestamped = True

    def new_store(self):
        return SlidingStore("store", RETENTION, self.in_memory, INTERVAL, slot=3)

    def rows(self, reverse=False):
        return sorted(super().rows(), key=lambda at: (at[0] // INTERVAL, at[1].encode(), at[0]), reverse=reverse)


for machine in (WindowMachine, InMemoryMachine, SlidingMachine):
    machine.TestCase.settings = settings(max_examples=settings.default.max_examples // 4)

TestOverADatabase = pytest.mark.kip("892-07", "KS-03")(WindowMachine.TestCase)
TestInMemory = pytest.mark.kip("KS-03")(InMemoryMachine.TestCase)
TestWithoutADisk = WithoutADiskMachine.TestCase
TestSliding = SlidingMachine.TestCase


class DuplicatesMachine(RecordMachine):
    """The model is a list of what was put, and the store's stream time."""

    keys = texts
    in_memory = timestamped = False

    def new_store(self):
        return DuplicateWindowStore("store", SIZE, RETENTION, self.in_memory, INTERVAL)

    def new_view(self, store):
        return record_view(store, STR, INT, self.timestamped, SIZE)

    def new_model(self):
        return [], -1

    def rows(self):
        rows, now = self.current
        visible = [row for row in rows if row[0] > now - RETENTION]
        if self.in_memory:
            return sorted(visible, key=lambda row: (row[0], row[1].encode()))
        return sorted(visible, key=lambda row: (row[0] // INTERVAL, row[1].encode(), row[0]))

    @rule(key=texts, value=st.none() | st.integers(-2, 2), start=times)
    def put(self, key, value, start) -> None:
        value = ValueAndTimestamp(value, start % 7) if self.timestamped and value is not None else value
        self.view.put(key, value, start)
        rows, now = self.current
        if value is not None or self.in_memory:
            now = max(now, start)
        if value is not None and start > now - RETENTION:
            rows.append((start, key, value))
        self.current = rows, now

    @rule(key=texts, start=times)
    def get(self, key, start) -> None:
        values = [row[2] for row in self.rows() if row[:2] == (start, key)]
        assert self.view.get(key, start) == (values[-1] if values else None)

    @rule(key=texts, first=times, last=times)
    def fetch(self, key, first, last) -> None:
        rows = [row for row in self.rows() if row[1] == key and first <= row[0] <= last]
        expected = [(start, value) for start, _, value in sorted(rows, key=lambda row: row[0])]
        assert list(self.view.fetch(key, first, last)) == expected
        assert list(self.view.backward_fetch(key, first, last)) == expected[::-1]

    @invariant()
    def all_rows_are_there(self) -> None:
        expected = [(Windowed(key, start, start + SIZE), value) for start, key, value in self.rows()]
        assert list(self.view.all()) == expected
        assert list(self.view.backward_all()) == expected[::-1]


class InMemoryDuplicatesMachine(DuplicatesMachine):
    in_memory = timestamped = True


for machine in (DuplicatesMachine, InMemoryDuplicatesMachine):
    machine.TestCase.settings = settings(max_examples=settings.default.max_examples // 4)

TestDuplicates = pytest.mark.kip("KS-03")(DuplicatesMachine.TestCase)
TestDuplicatesInMemory = InMemoryDuplicatesMachine.TestCase


def opened(**store):
    view = record_view(WindowStore("visits", **{"retention": 60_000} | store), STR, INT, timestamped=False)
    view.begin()
    return view


CALLS = {
    "get": lambda view: view.get("a", 0),
    "put": lambda view: view.put("a", 1, 0),
    "fetch": lambda view: view.fetch("a"),
    "backward_fetch": lambda view: view.backward_fetch("a"),
    "fetch_range": lambda view: view.fetch_range("a", "b"),
    "fetch_all": lambda view: view.fetch_all(),
    "backward_all": lambda view: view.backward_all(),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_view_that_is_kept_beyond_its_chunk_says_where_it_may_be_used(call):
    view = opened()
    view.put("a", 1, 0)
    call(view)
    view.end()
    with pytest.raises(StoreError, match=r"'visits' can only be used while its processor works on a record"):
        call(view)


@pytest.mark.parametrize("name", ["get", "put", "fetch", "backward_fetch"])
def test_none_is_no_key(name):
    arguments = {"get": (0,), "put": (1, 0)}.get(name, ())
    with pytest.raises(StoreError, match=r"must not be None: store 'visits'"):
        getattr(opened(), name)(None, *arguments)


def test_a_put_of_the_wrong_type_raises_there_and_changes_nothing():
    view = opened()
    view.put("a", 1, 5)
    for wrong in [(7, 1, 5), ("a", "x", 5), ("a", 2**63, 5), ("a", "x", 90_000)]:
        with pytest.raises(SerdeError):
            view.put(*wrong)
    for start in (-1, 2**63, "0", None, 1.5, True):
        with pytest.raises(StoreError, match="the start of a window in store 'visits' must be an int of milliseconds"):
            view.put("b", 1, start)
    assert list(view.all()) == [(Windowed("a", 5, 5), 1)]


def test_a_window_that_is_not_kept_any_more_is_neither_read_nor_written():
    view = opened(retention=10)
    view.put("a", 1, 5)
    view.put("b", 2, 14)
    assert view.get("a", 5) == 1
    view.put("b", 3, 15)
    view.put("a", 4, 5)
    assert (view.get("a", 5), view.get("b", 14)) == (None, 2)
    assert list(view.fetch("a")) == []


def test_a_deletion_moves_the_stores_time_as_well():
    view = opened(retention=10)
    view.put("a", 1, 5)
    view.put("b", None, 15)
    assert view.get("a", 5) is None
    view.end()
    view.begin()
    assert view.get("a", 5) is None


def test_many_keys_of_a_window_are_loaded_at_once(monkeypatch):
    store = WindowStore("visits", retention=60_000)
    view = record_view(store, STR, INT, timestamped=False)
    keys = [f"key-{number}" for number in range(100)]
    view.begin()
    for key in keys:
        view.put(key, 1, 0)
        view.put(key, 2, 5000)
    view.end()
    single = []
    monkeypatch.setattr(store, "look_up_one", lambda *asked: single.append(asked))
    view.begin(ValuesColumn(keys, STR))
    assert [view.get(key, 0) for key in keys[50:]] == [None] * 15 + [1] * 35
    assert len(single) == 15, "of an older window"
    assert [view.get(key, 5000) for key in keys[50:]] == [None] * 2 + [2] * 48
    assert len(single) == 17, "of the newest one, in which most of them are"
    assert [view.get(key, 5001) for key in keys] == [None] * 100
    assert len(single) == 17, "of one that is newer than all, of which there is nothing"


def test_the_end_of_a_window_is_at_most_the_last_time():
    view = record_view(WindowStore("visits", retention=60_000), STR, INT, timestamped=False, window_size=1000)
    view.begin()
    view.put("a", 1, 2**63 - 10)
    assert list(view.all()) == [(Windowed("a", 2**63 - 10, 2**63 - 1), 1)]


def test_a_window_takes_no_key_that_cannot_be_written_and_is_closed_with_the_chunk():
    store = WindowStore("store", RETENTION)
    view = record_view(store, STR, INT, timestamped=False, window_size=SIZE)
    view.begin()
    view.put("a", 1, 5)
    assert (view.get("a", 5), view.get("b", 5), view.get("c", -1)) == (1, None, None)
    with pytest.raises(SerdeError):
        view.get("\ud800", 5)
    with pytest.raises(StoreError):
        view.get(None, 5)
    view.put("b", 2, 5)
    view.put("c", 3, 30)  # 5 is over now
    assert (view.get("a", 5), view.get("b", 5), view.get("c", 30)) == (None, None, 3)
    view.end()
    with pytest.raises(StoreError):
        view.get("c", 30)
