"""Key-value stores record by record, against a plain dictionary under any sequence of calls."""

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import invariant, rule

from penstock.columns.column import ValuesColumn
from penstock.errors import SerdeError, StoreError
from penstock.record import ValueAndTimestamp
from penstock.serdes import BYTES, FLOAT, INT, JSON, STR, Serde
from penstock.state.database import Database
from penstock.state.kinds.key_value import KeyValueStore
from penstock.state.records import record_view
from support.record_machine import RecordMachine

texts = st.sampled_from(["", "a", "ab", "aé", "b", "b\0", "long" * 50])
numbers = st.integers(-3, 3) | st.sampled_from([2**63 - 1, -(2**63)])
documents = st.dictionaries(st.sampled_from("xy"), st.integers(0, 3), max_size=2)


class KeyValueMachine(RecordMachine):
    keys, values = texts, numbers
    key, value = STR, INT
    timestamped = False

    def new_store(self):
        return KeyValueStore("store")

    def new_view(self, store):
        return record_view(store, self.key, self.value, self.timestamped)

    def rows(self, reverse=False):
        return sorted(self.current.items(), key=lambda row: self.key.encode(row[0]), reverse=reverse)

    def between(self, low, high, reverse=False):
        encode = self.key.encode
        first, last = (None if bound is None else encode(bound) for bound in (low, high))
        inside = [row for row in self.rows(reverse) if first is None or encode(row[0]) >= first]
        return [row for row in inside if last is None or encode(row[0]) <= last]

    def write(self, key, value) -> None:
        self.current.pop(key, None)
        if value is not None:
            self.current[key] = value

    def drawn(self, data):
        value = data.draw(st.none() | self.values)
        if value is None or not self.timestamped:
            return value
        return ValueAndTimestamp(value, data.draw(st.integers(-1, 9)))

    def drawn_key(self, data):
        return data.draw(self.keys)

    @rule(data=st.data())
    def get(self, data) -> None:
        key = self.drawn_key(data)
        assert self.view.get(key) == self.current.get(key)

    @rule(data=st.data())
    def put(self, data) -> None:
        key, value = self.drawn_key(data), self.drawn(data)
        self.view.put(key, value)
        self.write(key, value)

    @rule(data=st.data())
    def count(self, data) -> None:
        key, value = self.drawn_key(data), self.drawn(data)
        assert self.view.get(key) == self.current.get(key)
        self.view.put(key, value)
        assert self.view.get(key) == value
        self.write(key, value)

    @rule(data=st.data())
    def put_if_absent(self, data) -> None:
        key, value = self.drawn_key(data), self.drawn(data)
        assert self.view.put_if_absent(key, value) == self.current.get(key)
        if key not in self.current:
            self.write(key, value)

    @rule(data=st.data(), count=st.integers(0, 3))
    def put_all(self, data, count) -> None:
        entries = [(self.drawn_key(data), self.drawn(data)) for _ in range(count)]
        self.view.put_all(entries)
        for entry in entries:
            self.write(*entry)

    @rule(data=st.data())
    def delete(self, data) -> None:
        key = self.drawn_key(data)
        assert self.view.delete(key) == self.current.get(key)
        self.write(key, None)

    @rule(data=st.data(), low=st.booleans(), high=st.booleans())
    def range(self, data, low, high) -> None:
        low = self.drawn_key(data) if low else None
        high = self.drawn_key(data) if high else None
        assert list(self.view.range(low, high)) == self.between(low, high)
        assert list(self.view.reverse_range(low, high)) == self.between(low, high, reverse=True)

    @rule(prefix=st.sampled_from([b"", b"a", b"b", b"\xff", b"\x00"]))
    def prefix_scan(self, prefix) -> None:
        expected = [row for row in self.rows() if self.key.encode(row[0]).startswith(prefix)]
        assert list(self.view.prefix_scan(prefix, BYTES)) == expected

    @rule(data=st.data())
    def write_while_iterating(self, data) -> None:
        rows = self.view.all()
        seen = [next(rows, None)]
        before = self.rows()
        key, value = self.drawn_key(data), self.drawn(data)
        self.view.put(key, value)
        self.write(key, value)
        assert [row for row in [*seen, *rows] if row is not None] == before

    @invariant()
    def all_rows_are_there(self) -> None:
        assert list(self.view.all()) == self.rows()
        assert list(self.view.reverse_all()) == self.rows(reverse=True)


class InMemoryMachine(KeyValueMachine):
    persistent = False
    timestamped = True


class KeptInMemoryMachine(KeyValueMachine):
    def new_store(self):
        return KeyValueStore("store", in_memory=True)


class TimestampedMachine(KeyValueMachine):
    keys, key = numbers, INT
    values, value = texts, STR
    timestamped = True


class DocumentMachine(KeyValueMachine):
    """Keys and values that are kept as bytes; what is put and got is changed in place behind the store's back."""

    keys, key = st.sampled_from([0.0, 1.0, -1.5]), FLOAT
    values, value = documents, JSON

    @rule(data=st.data())
    def change_what_was_put_and_got(self, data) -> None:
        key, value = self.drawn_key(data), data.draw(documents)
        self.view.put(key, value)
        self.write(key, dict(value))
        value["changed"] = 1
        self.view.get(key)["changed"] = 2
        assert self.view.get(key) == self.current[key]


class TimestampedDocumentMachine(DocumentMachine):
    timestamped = True
    change_what_was_put_and_got = None


for machine in (KeyValueMachine, KeptInMemoryMachine, TimestampedMachine, DocumentMachine, TimestampedDocumentMachine):
    machine.TestCase.settings = settings(max_examples=settings.default.max_examples // 4)

TestOverADatabase = pytest.mark.kip("892-07", "KS-03")(KeyValueMachine.TestCase)
TestInMemory = InMemoryMachine.TestCase
TestKeptInMemory = KeptInMemoryMachine.TestCase
TestTimestamped = pytest.mark.kip("KS-03")(TimestampedMachine.TestCase)
TestDocuments = DocumentMachine.TestCase
TestTimestampedDocuments = TimestampedDocumentMachine.TestCase


def opened(key: Serde = STR, value: Serde = INT, timestamped: bool = False):
    view = record_view(KeyValueStore("counts"), key, value, timestamped)
    view.begin()
    return view


CALLS = {
    "get": lambda view: view.get("a"),
    "put": lambda view: view.put("a", 1),
    "put_if_absent": lambda view: view.put_if_absent("a", 1),
    "put_all": lambda view: view.put_all([("a", 1)]),
    "delete": lambda view: view.delete("a"),
    "range": lambda view: view.range("a", "b"),
    "reverse_range": lambda view: view.reverse_range("a", "b"),
    "all": lambda view: view.all(),
    "reverse_all": lambda view: view.reverse_all(),
    "prefix_scan": lambda view: view.prefix_scan("a"),
    "approximate_num_entries": lambda view: view.approximate_num_entries(),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_view_that_is_kept_beyond_its_chunk_says_where_it_may_be_used(call):
    view = opened()
    view.put("a", 1)
    call(view)
    view.end()
    with pytest.raises(StoreError, match=r"'counts' can only be used while its processor works on a record"):
        call(view)
    view.begin()
    call(view)


def test_an_iterator_that_is_kept_beyond_its_chunk_raises():
    view = opened()
    view.put_all([("a", 1), ("b", 2)])
    rows = view.all()
    assert next(rows) == ("a", 1)
    view.end()
    view.begin()
    with pytest.raises(StoreError, match="make a list"):
        next(rows)


def test_an_iterator_tells_its_next_key_and_gives_nothing_once_it_is_closed():
    view = opened()
    view.put_all([("a", 1), ("b", 2)])
    with view.all() as rows:
        assert (rows.peek_next_key(), rows.has_next(), next(rows)) == ("a", True, ("a", 1))
    assert (rows.has_next(), list(rows)) == (False, [])


@pytest.mark.parametrize(
    "call",
    [
        lambda view: view.get(None),
        lambda view: view.put(None, 1),
        lambda view: view.put_if_absent(None, 1),
        lambda view: view.put_all([("a", 1), (None, 2)]),
        lambda view: view.delete(None),
        lambda view: view.prefix_scan(None),
    ],
    ids=["get", "put", "put_if_absent", "put_all", "delete", "prefix_scan"],
)
def test_none_is_no_key(call):
    view = opened()
    with pytest.raises(StoreError, match=r"must not be None: store 'counts'"):
        call(view)
    assert list(view.all()) == []


@pytest.mark.parametrize("entries", [{"ab": 1}, ["ab"], "ab", [("a", 1, 2)], None, [None], 5, {"ab"}])
def test_what_put_all_takes_are_pairs_and_no_text_is_taken_apart(entries):
    view = opened()
    with pytest.raises(StoreError, match="put_all takes pairs of key and value"):
        view.put_all(entries)
    assert list(view.all()) == []
    view.put_all(iter([("a", 1), ["b", 2]]))
    assert list(view.all()) == [("a", 1), ("b", 2)]


@pytest.mark.parametrize(
    ("key", "value", "wrong"),
    [
        (STR, INT, [(1, 1), ("a", "1"), ("a", True), ("a", 1.0), ("a", 2**63), ("a", -(2**63) - 1)]),
        (INT, STR, [("1", "a"), (True, "a"), (1.0, "a"), (2**63, "a"), (1, "\ud800"), (1, b"a")]),
        (BYTES, FLOAT, [("a", 1.0), (b"a", "1")]),
        (STR, JSON, [("\ud800", {}), ("a", object())]),
    ],
)
@pytest.mark.parametrize("known", [False, True])
def test_a_put_of_the_wrong_type_raises_there_and_changes_nothing(key, value, wrong, known):
    view = opened(key, value)
    before = {STR: ("a", 5), INT: (1, "x"), BYTES: (b"a", 1.5)}[key]
    if known and value is not JSON:
        view.put(*before)
    rows = list(view.all())
    for entry in wrong:
        with pytest.raises(SerdeError):
            view.put(*entry)
    assert list(view.all()) == rows


def test_keys_of_the_wrong_type_are_refused_although_python_holds_them_equal():
    view = opened(INT, STR)
    view.put(1, "one")
    for key in (True, 1.0):
        with pytest.raises(SerdeError):
            view.get(key)


def test_a_number_that_fits_comes_back_as_the_serde_has_it():
    view = opened(STR, FLOAT)
    view.put("a", 1)
    assert (view.get("a"), type(view.get("a"))) == (1.0, float)


def test_a_timestamped_store_takes_values_with_timestamps_and_nothing_else():
    view = opened(timestamped=True)
    for wrong in (1, (1, 2), ValueAndTimestamp(1, "now"), ValueAndTimestamp(1, -2), ValueAndTimestamp(1, True)):
        with pytest.raises(StoreError, match="Nothing was put"):
            view.put("a", wrong)
    view.put("a", ValueAndTimestamp(None, 5))
    assert view.get("a") is None


def test_a_value_that_was_put_is_in_the_columns_when_the_chunk_ends_and_not_before():
    store = KeyValueStore("counts")
    view = record_view(store, STR, INT, timestamped=True)
    view.begin()
    view.put("a", ValueAndTimestamp(1, 7))
    assert list(store.range()) == []
    view.end()
    assert list(store.range()) == [(b"a", INT.encode(1), 7)]


def test_what_an_abandoned_chunk_changed_is_forgotten():
    view = opened()
    view.put("a", 1)
    view.abandon()
    view.begin()
    assert view.get("a") is None


def test_the_number_of_entries_is_exact_as_long_as_all_rows_are_in_memory():
    view = opened()
    view.put_all([("a", 1), ("b", 2), ("a", 3)])
    view.delete("b")
    assert view.approximate_num_entries() == 1


def test_the_number_of_entries_counts_rows_that_are_on_disk_only(tmp_path):
    database, store = Database(tmp_path / "db"), KeyValueStore("counts")
    store.open(database)
    view = record_view(store, INT, INT, timestamped=False)
    view.begin()
    view.put_all((number, number) for number in range(100))
    view.end()
    store.commit()
    database.write({"counts": store.families()["counts"].dirty_rows()}, {})
    store.flushed(database)
    store.evict(everything=True)
    view.begin()
    view.get(7)
    assert 90 <= view.approximate_num_entries() <= 110
    database.close()


def test_a_chunk_is_told_keys_of_another_type_and_loads_none():
    view = opened()
    view.end()
    view.begin(ValuesColumn([1, 2], INT))
    assert view.get("1") is None


def test_a_key_of_the_users_own_subclass_of_text_is_the_text():
    class Code(str):
        pass

    view = opened()
    view.put(Code("JFK"), 1)
    view.put("JFK", view.get(Code("JFK")) + 1)
    assert list(view.all()) == [("JFK", 2)]
