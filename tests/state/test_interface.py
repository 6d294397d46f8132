"""The interfaces of state stores and transactions, as users meet them (KIP-892)."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from penstock import (
    AbstractTransaction,
    AbstractTransactionalStore,
    IsolationLevel,
    StateStore,
    StateStoreContext,
    StoreError,
    TopicPartition,
    TransactionalKeyValueStore,
    TransactionalSegment,
)
from support.own_stores import DictStore, TransactionalDictStore

CHANGELOG = TopicPartition("app-own-changelog", 0)
EXACTLY_ONCE = StateStoreContext("app", "0_0", Path("stores"), {"processing_guarantee": "exactly_once"})
AT_LEAST_ONCE = StateStoreContext("app", "0_0", Path("stores"), {"processing_guarantee": "at_least_once"})


def opened(store, context: StateStoreContext = EXACTLY_ONCE):
    store.init(context, store)
    return store


# --- commit and flush ---------------------------------------------------------------------------------------------


@pytest.mark.kip("892-01")
def test_a_store_that_has_only_flush_is_flushed_by_a_commit_and_warns_once_where_flush_is_written():
    class Old(DictStore):
        flushed = 0

        def flush(self):
            self.flushed += 1

    store = Old()
    with pytest.warns(DeprecationWarning, match=r"Old\.flush\(\) is deprecated .*commit\(changelog_offsets\)") as found:
        store.commit({CHANGELOG: 7})
    assert found[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store.commit({CHANGELOG: 8})
        Old("another").commit({CHANGELOG: 8})
    assert store.flushed == 2


@pytest.mark.kip("892-01")
def test_a_class_that_inherits_flush_warns_where_flush_is_written():
    class Flushes:
        def flush(self): ...

    kind = type("Made", (Flushes, DictStore), {})
    with pytest.warns(DeprecationWarning, match=r"Made\.flush\(\) is deprecated") as found:
        kind().commit({CHANGELOG: 7})
    assert (found[0].filename, found[0].lineno) == (__file__, Flushes.flush.__code__.co_firstlineno)


@pytest.mark.kip("892-01")
def test_flush_of_a_store_that_has_commit_warns_and_commits_without_offsets():
    class New(DictStore):
        commits = ()

        def commit(self, changelog_offsets):
            self.commits += (changelog_offsets,)

    store = New()
    with pytest.warns(DeprecationWarning, match="New.flush"):
        store.flush()
    store.commit({CHANGELOG: 7})
    assert store.commits == ({}, {CHANGELOG: 7})


@pytest.mark.kip("892-01")
def test_a_store_that_has_both_has_each_called_for_what_it_is():
    class Both(DictStore):
        calls = ()

        def flush(self):
            self.calls += ("flush",)

        def commit(self, changelog_offsets):
            self.calls += ("commit",)
            super().commit(changelog_offsets)  # as one that was written for both versions may

    store = Both()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        store.commit({})
        store.flush()
    assert store.calls == ("commit", "flush", "flush")


@pytest.mark.kip("892-01")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("ask", [lambda store: store.commit({}), lambda store: store.flush()])
def test_a_store_that_has_neither_says_what_it_lacks(ask):
    with pytest.raises(StoreError, match=r"'own' cannot commit: its class DictStore has neither commit.* nor .*flush"):
        ask(DictStore())


@pytest.mark.kip("892-01")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_overridden_methods_may_call_those_they_override():
    class Old(DictStore):
        def flush(self):
            super().flush()

    class New(DictStore):
        def commit(self, changelog_offsets):
            super().commit(changelog_offsets)

    for store in (Old(), New()):
        store.commit({})
        store.flush()


# --- defaults -----------------------------------------------------------------------------------------------------


@pytest.mark.kip("44-06", "892-02")
@pytest.mark.parametrize("name", ["committed_offset", "get_committed_offset"])
def test_a_class_that_tells_its_offsets_by_one_name_tells_them_by_the_other(name: str):
    told = type("Told", (DictStore,), {name: lambda self, partition: 7, "manages_offsets": lambda self: True})()
    assert (told.committed_offset(CHANGELOG), told.get_committed_offset(CHANGELOG)) == (7, 7)
    assert (DictStore().committed_offset(CHANGELOG), DictStore().get_committed_offset(CHANGELOG)) == (None, None)


@pytest.mark.kip("44-06")
def test_a_subclass_may_tell_offsets_by_the_other_name_and_ask_its_base():
    class First(DictStore):
        def get_committed_offset(self, topic_partition):
            return 7

    class Second(First):
        def committed_offset(self, topic_partition):
            return (super().committed_offset(topic_partition) or 0) + 1

    assert (Second().committed_offset(CHANGELOG), First().committed_offset(CHANGELOG)) == (8, 7)


@pytest.mark.kip("892-02")
@pytest.mark.kip("892-03")
def test_a_store_knows_neither_offsets_nor_transactions_unless_its_class_does():
    store = DictStore()
    assert (store.manages_offsets(), store.get_committed_offset(CHANGELOG)) == (False, None)
    assert store.new_transaction() is store
    assert (store.approximate_num_uncommitted_entries, store.approximate_num_uncommitted_bytes) == (0, 0)


@pytest.mark.kip("892-03")
def test_uncommitted_writes_of_all_transactions_are_counted_and_unknown_when_one_does_not_know():
    class Silent(AbstractTransaction):
        def commit_transaction(self, offsets): ...

        def close_transaction(self): ...

    store = opened(TransactionalDictStore())
    first, second = store.new_transaction(), store.new_transaction()
    first.put(b"a", b"1" * 1000)
    second.put(b"a", None)
    second.put(b"b", b"2")
    assert store.approximate_num_uncommitted_entries == 3
    assert 1000 < store.approximate_num_uncommitted_bytes < 2000
    store.create_transaction = lambda: Silent(store)
    silent = store.new_transaction()
    assert (store.approximate_num_uncommitted_entries, store.approximate_num_uncommitted_bytes) == (-1, -1)
    for transaction in (silent, first, second):
        transaction.close()
    assert (store.approximate_num_uncommitted_entries, store.approximate_num_uncommitted_bytes) == (0, 0)


# --- transactions -------------------------------------------------------------------------------------------------


@pytest.mark.kip("892-04")
def test_a_transaction_reads_its_own_writes_and_nobody_else_does_before_it_is_committed_with_its_offsets():
    store = opened(TransactionalDictStore())
    store.rows = {b"a": b"1", b"b": b"1", b"d": b"1"}
    with store.new_transaction() as transaction, store.new_transaction() as other:
        for key, value in {b"a": b"2", b"b": None, b"c": b"2"}.items():
            transaction.put(key, value)
        mine = [(b"a", b"2"), (b"c", b"2"), (b"d", b"1")]
        assert [transaction.get(key) for key in (b"a", b"b", b"c", b"d")] == [b"2", None, b"2", b"1"]
        assert (list(transaction.all()), list(transaction.reverse_all())) == (mine, mine[::-1])
        assert list(transaction.range(b"b", b"c")) == mine[1:2]
        assert list(other.all()) == list(store.all()) == [(b"a", b"1"), (b"b", b"1"), (b"d", b"1")]
        transaction.commit({CHANGELOG: 7})
        assert list(other.all()) == list(store.all()) == mine
    assert (store.rows, store.offsets) == (dict(mine), {CHANGELOG: 7})


@pytest.mark.kip("892-04")
def test_a_block_that_ends_without_a_commit_takes_everything_back():
    store = opened(TransactionalDictStore())

    def fail() -> None:
        with store.new_transaction() as transaction:
            transaction.put(b"a", b"1")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with store.new_transaction() as forgotten:
        forgotten.put(b"a", b"1")
    assert (store.rows, store.open_transactions()) == ({}, [])


@pytest.mark.kip("892-04")
@pytest.mark.parametrize(("end", "how"), [("commit", "committed"), ("close", "closed")])
def test_an_ended_transaction_can_be_closed_again_and_followed_by_another_and_nothing_else(end: str, how: str):
    store = opened(TransactionalDictStore())
    transaction = store.new_transaction()
    transaction.put(b"a", b"1")
    transaction.commit({}) if end == "commit" else transaction.close()
    transaction.close()
    transaction.close()
    assert not transaction.is_open
    wrong = [
        lambda: transaction.get(b"a"),
        lambda: transaction.put(b"a", b"2"),
        lambda: transaction.delete(b"a"),
        lambda: transaction.range(),
        lambda: transaction.reverse_range(),
        lambda: transaction.all(),
        lambda: next(transaction.prefix_scan(b"a")),
        lambda: transaction.commit({}),
        lambda: transaction.on_close(print),
    ]
    says = rf"this transaction of the store 'own' was {how} .* begin another one with new_transaction\(\)"
    for use in wrong:
        with pytest.raises(StoreError, match=says):
            use()
    kept = {b"a": b"1"} if end == "commit" else {}
    assert store.rows == kept
    following = transaction.new_transaction()
    assert (following.is_open, dict(following.all())) == (True, kept)
    following.put(b"b", b"2")
    following.commit({})
    assert store.rows == {**kept, b"b": b"2"}


@pytest.mark.kip("892-04")
def test_a_commit_that_fails_leaves_the_transaction_open_to_be_tried_again_or_closed():
    store = opened(TransactionalDictStore())
    transaction = store.new_transaction()
    transaction.put(b"a", b"1")
    write, transaction._write = transaction._write, lambda *_: 1 / 0
    with pytest.raises(ZeroDivisionError):
        transaction.commit({})
    assert (transaction.is_open, store.open_transactions()) == (True, [transaction])
    transaction._write = write
    transaction.commit({})
    assert store.rows == {b"a": b"1"}


@pytest.mark.kip("892-05")
def test_closing_a_store_closes_every_open_transaction():
    store = opened(TransactionalDictStore())
    first, second, third = (store.new_transaction() for _ in range(3))
    closed = []
    for name, transaction in {"first": first, "second": second, "third": third}.items():
        transaction.put(name.encode(), b"1")
        transaction.on_close(lambda name=name: closed.append(name))
    second.commit({})
    store.close()
    assert [each.is_open for each in (store, first, second, third)] == [False] * 4
    assert (closed, store.rows) == (["second", "first", "third"], {b"second": b"1"})
    with pytest.raises(StoreError, match=r"'own' is not open, so it has no transactions: call init"):
        first.new_transaction()


@pytest.mark.kip("892-05")
def test_a_commit_of_the_store_commits_its_open_transactions_and_the_last_one_has_the_offsets():
    store = opened(TransactionalDictStore())
    first, second = store.new_transaction(), store.new_transaction()
    first.put(b"a", b"1")
    second.put(b"a", b"2")
    written, write = [], store.write
    for transaction in (first, second):
        transaction._write = lambda changes, offsets: (written.append(dict(offsets)), write(changes, offsets))
    store.commit({CHANGELOG: 7})
    assert (store.rows, written) == ({b"a": b"2"}, [{}, {CHANGELOG: 7}])
    store.commit({CHANGELOG: 8})  # nothing is open: the offsets count all the same
    assert store.offsets == {CHANGELOG: 8}


@pytest.mark.kip("892-05")
def test_what_is_no_transaction_is_refused():
    store = opened(TransactionalDictStore())
    store.create_transaction = DictStore
    with pytest.raises(StoreError, match=r"create_transaction of TransactionalDictStore, .* has to give an Abstract"):
        store.new_transaction()


# --- isolation ----------------------------------------------------------------------------------------------------


@pytest.mark.kip("892-06")
@pytest.mark.parametrize(
    ("context", "level"),
    [(EXACTLY_ONCE, IsolationLevel.READ_COMMITTED), (AT_LEAST_ONCE, IsolationLevel.READ_UNCOMMITTED)],
)
def test_the_isolation_level_of_every_transaction_follows_from_the_processing_guarantee(context, level):
    store = opened(TransactionalDictStore(), context)
    transaction = store.new_transaction()
    assert (context.isolation_level, store.isolation_level, transaction.isolation_level) == (level,) * 3
    transaction.put(b"a", b"1")
    assert transaction.get(b"a") == b"1"
    transaction.commit({})
    assert transaction.new_transaction().isolation_level is level


def test_a_transaction_shows_its_store_and_initialises_nothing():
    store = opened(TransactionalDictStore("mine"))
    transaction = store.new_transaction()
    transaction.init(EXACTLY_ONCE, store)
    assert (transaction.name, transaction.persistent, transaction.is_open) == ("mine", False, True)
    assert isinstance(transaction, StateStore)


# --- wrappers -----------------------------------------------------------------------------------------------------


@pytest.mark.kip("892-11")
@pytest.mark.parametrize("kind", [TransactionalKeyValueStore, lambda store: TransactionalSegment(store, 3)])
def test_wrappers_begin_a_transaction_with_init_and_another_after_each_commit_and_rollback(kind):
    inner = TransactionalDictStore()
    store = opened(kind(inner))
    first = store.transaction
    store.put(b"a", b"1")
    assert (store.get(b"a"), inner.rows) == (b"1", {})
    store.commit({CHANGELOG: 1})
    assert (inner.rows, inner.offsets) == ({b"a": b"1"}, {CHANGELOG: 1})
    second = store.transaction
    store.put(b"a", b"2")
    store.rollback()
    assert (list(store.all()), inner.rows) == ([(b"a", b"1")], {b"a": b"1"})
    assert [each.is_open for each in (first, second, store.transaction)] == [False, False, True]
    assert inner.open_transactions() == [store.transaction]
    store.close()
    assert (store.is_open, inner.is_open) == (False, False)


@pytest.mark.kip("892-11")
def test_a_wrapped_store_without_transactions_is_written_at_once():
    class Plain(DictStore):
        def commit(self, changelog_offsets): ...

    inner = Plain()
    store = opened(TransactionalKeyValueStore(inner))
    store.put(b"a", b"1")
    store.rollback()
    assert inner.rows == {b"a": b"1"}
    assert store.isolation_level is IsolationLevel.READ_UNCOMMITTED
    store.commit({})
    assert store.get(b"a") == b"1"


@pytest.mark.kip("892-11")
def test_a_segment_that_is_destroyed_rolls_back_and_is_gone_as_a_whole():
    class Rows(TransactionalDictStore):
        def destroy(self):
            self.rows = None

    inner = Rows()
    segment = opened(TransactionalSegment(inner, 3))
    segment.put(b"a", b"1")
    transaction = segment.transaction
    segment.destroy()
    assert (segment.id, transaction.is_open, inner.is_open, inner.rows) == (3, False, False, None)


def test_a_store_that_is_read_before_it_is_open_says_so():
    with pytest.raises(StoreError, match=r"'own' is not open: call init\(context, root\)"):
        TransactionalKeyValueStore(DictStore()).get(b"a")


def test_a_store_class_says_what_it_lacks():
    class Nothing(AbstractTransactionalStore):
        name, persistent = "nothing", False

    with pytest.raises(TypeError, match="create_transaction"):
        Nothing()
