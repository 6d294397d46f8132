"""Transactions of the built-in stores, against a store in which the same was written (KIP-892)."""

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import hypothesis.strategies as st
import pytest
from hypothesis import given

from penstock.errors import OldNameWarning, StoreError
from penstock.record import SessionKey, ValueAndTimestamp
from penstock.serdes import INT, JSON, STR
from penstock.state.interface import IsolationLevel, TopicPartition, Transaction
from penstock.state.kinds.duplicates import DuplicateWindowStore
from penstock.state.kinds.key_value import KeyValueStore
from penstock.state.kinds.lru import LruStore
from penstock.state.kinds.session import SessionStore
from penstock.state.kinds.sliding import SlidingStore
from penstock.state.kinds.versioned.store import VersionedStore
from penstock.state.kinds.window import WindowStore
from penstock.state.records import record_view

pytestmark = pytest.mark.kip("892-03", "892-04", "892-06", "44-03")

KEYS, VALUES, TIMES = st.sampled_from(["", "a", "ab", "b"]), st.none() | st.integers(-2, 2), st.integers(0, 60)
Call = tuple[str, tuple[Any, ...]]


class Kind(NamedTuple):
    """A kind of store: how it is made, written and read."""

    view: Callable[[], Any]
    writes: st.SearchStrategy[Call]
    read: Callable[[Any], Any]


def calls(name: str, *arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[Call]:
    return st.tuples(st.just(name), st.tuples(*arguments))


def key_values(store: Any) -> Any:
    one = [store.get(key) for key in ("", "a", "ab", "b")]
    some = list(store.prefix_scan("a")), list(store.range("a", "ab")), list(store.reverse_range("a"))
    return one, list(store.all()), list(store.reverse_all()), some, store.approximate_num_entries()


def windows(store: Any) -> Any:
    one = [(store.get(key, time), list(store.fetch(key, 3, time))) for key in ("a", "ab") for time in (3, 20, 50)]
    return one, list(store.all()), list(store.backward_all()), list(store.fetch_range("a", "b", 5, 50))


def sessions(store: Any) -> Any:
    one = [(list(store.find_sessions(key, 10, 40)), store.fetch_session(key, 5, 9)) for key in ("", "a", "ab", "b")]
    return one, list(store.find_sessions_in_range()), list(store.backward_fetch_range("a"))


def versions(store: Any) -> Any:
    return [(store.get(key), [store.get(key, time) for time in range(0, 60, 5)]) for key in ("", "a", "ab", "b")]


SESSION = st.builds(lambda key, times: SessionKey(key, *sorted(times)), KEYS, st.tuples(TIMES, TIMES))
PUTS = calls("put", KEYS, VALUES)
TIMED = calls("put", KEYS, VALUES, TIMES)
OF_KEYS = st.one_of(
    PUTS,
    calls("delete", KEYS),
    calls("put_if_absent", KEYS, VALUES),
    calls("put_all", st.lists(st.tuples(KEYS, VALUES))),
)
KINDS = {
    "key-value": Kind(lambda: record_view(KeyValueStore("s"), STR, INT, False), OF_KEYS, key_values),
    "key-value in memory": Kind(lambda: record_view(KeyValueStore("s", True), STR, INT, False), OF_KEYS, key_values),
    "LRU": Kind(lambda: record_view(LruStore("s", 2), STR, INT, False), OF_KEYS | calls("get", KEYS), key_values),
    "window": Kind(lambda: record_view(WindowStore("s", 20, False, 8), STR, INT, False, 5), TIMED, windows),
    "window in memory": Kind(lambda: record_view(WindowStore("s", 20, True, 8), STR, INT, False, 5), TIMED, windows),
    "sliding": Kind(lambda: record_view(SlidingStore("s", 20, False, 8, 3), STR, INT, False, 5), TIMED, windows),
    "duplicates": Kind(lambda: record_view(DuplicateWindowStore("s", 5, 20), STR, INT, False, 5), TIMED, windows),
    "session": Kind(
        lambda: record_view(SessionStore("s", 20, False, 8, 2), STR, INT, False),
        calls("put", SESSION, VALUES) | calls("remove", SESSION),
        sessions,
    ),
    "session in memory": Kind(
        lambda: record_view(SessionStore("s", 20, True, 8, 2), STR, INT, False),
        calls("put", SESSION, VALUES) | calls("remove", SESSION),
        sessions,
    ),
    "versioned": Kind(
        lambda: record_view(VersionedStore("s", 30, 8), STR, INT), TIMED | calls("delete", KEYS, TIMES), versions
    ),
}


def opened(kind: Kind, written: list[Call]) -> Any:
    """A store with rows, some of them in its columns."""
    view = kind.view()
    view.begin()
    for number, (name, arguments) in enumerate(written):
        getattr(view, name)(*arguments)
        if number == len(written) // 2:
            view.end()
            view.begin()
    return view


@pytest.mark.parametrize("name", KINDS)
@given(data=st.data())
def test_a_transaction_reads_what_a_store_with_its_writes_shows_and_nobody_else_does_before_its_commit(name, data):
    kind = KINDS[name]
    before, written = (data.draw(st.lists(kind.writes, max_size=6)) for _ in range(2))
    store, model, untouched = opened(kind, before), opened(kind, before), opened(kind, before)
    with store.new_transaction() as transaction:
        for method, arguments in written:
            assert getattr(transaction, method)(*arguments) == getattr(model, method)(*arguments)
        if name != "LRU":  # whose reads count as use
            assert kind.read(transaction) == kind.read(model)
            assert kind.read(store) == kind.read(untouched)
        is_kept = data.draw(st.booleans())
        if is_kept:
            transaction.commit({})
    expected = model if is_kept else untouched
    assert kind.read(store) == kind.read(expected)
    store.end()
    store.begin()
    expected.end()
    expected.begin()
    assert kind.read(store) == kind.read(expected)


@pytest.mark.parametrize("name", KINDS)
def test_a_transaction_ends_once(name):
    view = KINDS[name].view()
    view.begin()
    with view.new_transaction() as transaction:
        assert isinstance(transaction, Transaction)
        assert (transaction.is_open, transaction.name, transaction.persistent) == (True, "s", view.persistent)
        assert transaction.isolation_level is IsolationLevel.READ_COMMITTED
        transaction.commit({})
        assert not transaction.is_open
        with pytest.raises(StoreError, match="was committed and can no longer be read or written"):
            transaction.commit({})
    transaction.close()
    with pytest.raises(StoreError, match="begin another one with new_transaction"):
        KINDS[name].read(transaction)
    assert transaction.new_transaction().is_open


def test_of_two_transactions_each_sees_its_own_and_what_the_other_one_committed():
    counts = KINDS["key-value"].view()
    counts.begin()
    counts.put("a", 1)
    one, two = counts.new_transaction(), counts.new_transaction()
    one.put("a", 2)
    one.put("b", 1)
    two.put("b", 2)
    assert [list(store.all()) for store in (one, two, counts)] == [
        [("a", 2), ("b", 1)],
        [("a", 1), ("b", 2)],
        [("a", 1)],
    ]
    one.commit({})
    assert [list(store.all()) for store in (two, counts)] == [[("a", 2), ("b", 2)], [("a", 2), ("b", 1)]]
    two.commit({})
    assert list(counts.all()) == [("a", 2), ("b", 2)]


@pytest.mark.parametrize("name", [name for name in KINDS if name != "LRU"])
def test_a_transaction_sees_what_is_written_into_its_store_beside_it(name):
    kind = KINDS[name]
    store, model = kind.view(), kind.view()
    calls = {
        key_values: [("put", ("a", 1)), ("put", ("b", 2)), ("put", ("ab", 3)), ("put", ("a", None))],
        sessions: [("put", (SessionKey("a", n, n + 2), n)) for n in (1, 50, 40, 52)],
    }.get(kind.read, [("put", ("a", n, n)) for n in (1, 50, 40, 52)])
    store.begin()
    model.begin()
    with store.new_transaction() as transaction:
        for number, (method, arguments) in enumerate(calls):
            for one in (transaction if number % 2 else store, model):
                getattr(one, method)(*arguments)
            assert kind.read(transaction) == kind.read(model)
        transaction.commit({})
    assert kind.read(store) == kind.read(model)


def test_a_value_that_is_changed_in_place_after_its_put_does_not_change_the_store():
    notes = record_view(KeyValueStore("notes"), STR, JSON, False)
    notes.begin()
    with notes.new_transaction() as transaction:
        lines = ["one"]
        transaction.put("a", lines)
        lines.append("two")
        transaction.commit({})
    assert notes.get("a") == ["one"]


def test_values_with_timestamps_are_kept_with_them():
    prices = record_view(KeyValueStore("prices"), STR, INT)
    prices.begin()
    with prices.new_transaction() as transaction:
        transaction.put("tea", ValueAndTimestamp(3, 10))
        assert transaction.get("tea") == ValueAndTimestamp(3, 10)
        transaction.commit({})
    assert prices.get("tea") == ValueAndTimestamp(3, 10)


@pytest.mark.parametrize("name", KINDS)
def test_the_uncommitted_figures_count_what_the_store_and_its_transactions_have_written(name):
    kind = KINDS[name]
    keys = "ab" if kind.read is key_values else "aa"

    def put(into: Any, number: int) -> None:
        if kind.read is sessions:
            into.put(SessionKey("a", number, number), number)
        else:
            into.put(keys[number], number, *[number][: kind.read is not key_values])

    store = kind.view()
    store.begin()
    assert (store.approximate_num_uncommitted_entries, store.approximate_num_uncommitted_bytes) == (0, 0)
    with store.new_transaction() as transaction:
        assert transaction.approximate_num_uncommitted_bytes == 0
        put(transaction, 0)
        put(transaction, 1)
        assert transaction.approximate_num_uncommitted_entries == store.approximate_num_uncommitted_entries == 2
        assert store.approximate_num_uncommitted_bytes >= transaction.approximate_num_uncommitted_bytes > 0
    assert (store.approximate_num_uncommitted_entries, store.approximate_num_uncommitted_bytes) == (0, 0)
    put(store, 0)
    assert (store.approximate_num_uncommitted_entries, store.approximate_num_uncommitted_bytes > 0) == (1, True)
    store.end()
    store._store.commit()
    assert (store.approximate_num_uncommitted_entries, store.approximate_num_uncommitted_bytes) == (0, 0)


def test_a_store_commits_its_open_transactions_and_takes_no_offsets():
    counts = KINDS["key-value"].view()
    counts.begin()
    transaction = counts.new_transaction()
    transaction.put("a", 1)
    with pytest.raises(StoreError, match="keeps its offsets itself"):
        counts.commit({TopicPartition("counts-changelog", 0): 7})
    with pytest.raises(StoreError, match="keeps its offsets itself"):
        transaction.commit({TopicPartition("counts-changelog", 0): 7})
    assert (counts.get("a"), transaction.is_open) == (None, True)
    counts.commit({})
    assert (counts.get("a"), transaction.is_open) == (1, False)


@pytest.mark.kip("892-01")
@pytest.mark.parametrize("of_transaction", [False, True])
def test_flush_warns_where_it_is_called_and_commits(of_transaction: bool):
    counts = KINDS["key-value"].view()
    counts.begin()
    transaction = counts.new_transaction()
    transaction.put("a", 1)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        (transaction if of_transaction else counts).flush()
    [warning] = said
    assert (warning.category, warning.filename) == (OldNameWarning, __file__)
    assert "flush() is deprecated (KIP-892): a state store has commit(changelog_offsets)" in str(warning.message)
    assert counts.get("a") == 1


def test_a_transaction_can_be_used_while_its_store_can():
    counts = KINDS["key-value"].view()
    with pytest.raises(StoreError, match="can only be used while its processor works"):
        counts.new_transaction()
    counts.begin()
    transaction = counts.new_transaction()
    transaction.put("a", 1)
    rows = transaction.all()
    counts.end()
    with pytest.raises(StoreError, match="can only be used while its processor works"):
        transaction.get("a")
    counts.begin()
    assert transaction.get("a") == 1
    with pytest.raises(StoreError, match="cannot be kept beyond the record"):
        next(rows)


@pytest.mark.kip("44-02")
@pytest.mark.parametrize("name", KINDS)
def test_a_processor_reads_its_store_at_either_level(name):
    kind = KINDS[name]
    put = {key_values: ("a", 1), sessions: (SessionKey("a", 5, 9), 1)}.get(kind.read, ("a", 1, 5))
    again = {key_values: ("a", 2), sessions: (SessionKey("a", 50, 59), 2)}.get(kind.read, ("a", 2, 50))
    store, before, after = kind.view(), kind.view(), kind.view()
    for one, writes in ((store, [put]), (before, [put]), (after, [put, again])):
        one.begin()
        for write in writes:
            one.put(*write)
    store.end()
    store._store.commit()
    store.begin()
    store.put(*again)
    committed, written = (
        store.read_only(level) for level in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
    )
    assert kind.read(committed) == kind.read(before)
    assert kind.read(written) == kind.read(after)
    assert kind.read(before) != kind.read(after)
    with pytest.raises(StoreError, match="is only read at this isolation level"):
        committed.put(*put)
    store.end()
    store._store.rollback()
    store.begin()
    assert kind.read(committed) == kind.read(store) == kind.read(before)


@pytest.mark.kip("44-02")
@pytest.mark.parametrize("name", KINDS)
@given(data=st.data())
def test_a_view_of_what_is_committed_that_a_processor_keeps_goes_on_with_every_commit(name, data):
    kind = KINDS[name]
    store, model = opened(kind, []), opened(kind, [])
    committed = store.read_only(IsolationLevel.READ_COMMITTED)
    for _ in range(3):
        written = data.draw(st.lists(kind.writes, max_size=4))
        for method, arguments in written:
            getattr(store, method)(*arguments)
            if data.draw(st.booleans()):
                assert kind.read(committed) == kind.read(model)
        is_kept = data.draw(st.booleans())
        store.end()
        store._store.commit() if is_kept else store._store.rollback()
        store.begin()
        if is_kept:
            for method, arguments in written:
                getattr(model, method)(*arguments)
            model.end()
            model._store.commit()
            model.begin()
    assert kind.read(committed) == kind.read(model)
