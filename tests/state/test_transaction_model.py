"""Several transactions of a store at a time against plain dictionaries, under any sequence of operations (KIP-892)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from penstock import BufferedTransaction, StateStoreContext, StoreError, TopicPartition, TransactionalKeyValueStore
from support.own_stores import TransactionalDictStore

keys = st.sampled_from([b"", b"a", b"a\0", b"aa", b"ab", b"b", b"\xff", b"\xff\xff"])
values = st.none() | st.binary(max_size=2)
bounds = st.none() | keys
CHANGELOG = TopicPartition("app-own-changelog", 0)


class Transactions(RuleBasedStateMachine):
    """``committed`` is what the store has, ``written`` what each open transaction changed, by its identity."""

    transactions = Bundle("transactions")
    ended = Bundle("ended")

    @initialize()
    def begin(self) -> None:
        self.store = TransactionalDictStore()
        self.store.init(StateStoreContext("app", "0_0", Path("stores")), self.store)
        self.committed: dict[bytes, bytes] = {}
        self.written: dict[int, dict[bytes, bytes | None]] = {}
        self.offset: int | None = None
        self.commits = 0

    def seen_by(self, transaction: Any) -> dict[bytes, bytes]:
        changed = {**self.committed, **self.written[id(transaction)]}
        return {key: value for key, value in changed.items() if value is not None}

    @rule(target=transactions)
    def new_transaction(self) -> BufferedTransaction:
        made = self.store.new_transaction()
        self.written[id(made)] = {}
        return made

    @rule(target=transactions, done=ended)
    def begin_anew_from_one_that_ended(self, done: BufferedTransaction) -> BufferedTransaction:
        made = done.new_transaction()
        self.written[id(made)] = {}
        return made

    @rule(transaction=transactions, key=keys, value=values)
    def put(self, transaction: BufferedTransaction, key: bytes, value: bytes | None) -> None:
        transaction.put(key, value)
        self.written[id(transaction)][key] = value

    @rule(transaction=transactions, key=keys)
    def delete(self, transaction: BufferedTransaction, key: bytes) -> None:
        assert transaction.delete(key) == self.seen_by(transaction).get(key)
        self.written[id(transaction)][key] = None

    @rule(transaction=transactions, key=keys, value=values)
    def put_if_absent(self, transaction: BufferedTransaction, key: bytes, value: bytes | None) -> None:
        before = self.seen_by(transaction).get(key)
        assert transaction.put_if_absent(key, value) == before
        if before is None:
            self.written[id(transaction)][key] = value

    @rule(transaction=transactions, low=bounds, high=bounds, prefix=keys)
    def read(self, transaction: BufferedTransaction, low: bytes | None, high: bytes | None, prefix: bytes) -> None:
        seen = self.seen_by(transaction)
        inside = [(k, seen[k]) for k in sorted(seen) if (low is None or k >= low) and (high is None or k <= high)]
        assert list(transaction.range(low, high)) == inside
        assert list(transaction.reverse_range(low, high)) == inside[::-1]
        assert list(transaction.prefix_scan(prefix)) == [(k, seen[k]) for k in sorted(seen) if k.startswith(prefix)]
        assert {key: transaction.get(key) for key in (b"", b"a", b"aa")} == {k: seen.get(k) for k in (b"", b"a", b"aa")}
        assert transaction.approximate_num_entries() == len(seen)

    @rule(target=ended, transaction=consumes(transactions))
    def commit(self, transaction: BufferedTransaction) -> BufferedTransaction:
        self.commits += 1
        transaction.commit({CHANGELOG: self.commits})
        self.committed, self.offset = self.seen_by(transaction), self.commits
        del self.written[id(transaction)]
        return transaction

    @rule(target=ended, transaction=consumes(transactions), times=st.integers(1, 3))
    def close(self, transaction: BufferedTransaction, times: int) -> BufferedTransaction:
        for _ in range(times):
            transaction.close()
        del self.written[id(transaction)]
        return transaction

    @rule(done=ended)
    def an_ended_one_is_refused_and_may_be_closed_again(self, done: BufferedTransaction) -> None:
        for use in (lambda: done.put(b"a", b"1"), lambda: done.get(b"a"), lambda: done.commit({}), done.range):
            with pytest.raises(StoreError, match="begin another one with new_transaction"):
                use()
        done.close()

    @invariant()
    def the_store_has_what_was_committed_and_knows_its_open_transactions(self) -> None:
        assert self.store.rows == self.committed
        assert self.store.offsets.get(CHANGELOG) == self.offset
        assert [id(one) for one in self.store.open_transactions()] == list(self.written)
        counted = sum(len(changes) for changes in self.written.values())
        assert self.store.approximate_num_uncommitted_entries == counted

    def teardown(self) -> None:
        opened = self.store.open_transactions()
        self.store.close()
        assert not any(one.is_open for one in opened)
        assert self.store.rows == self.committed


class Wrapped(RuleBasedStateMachine):
    """The wrapper, whose current transaction is always a new one."""

    @initialize()
    def begin(self) -> None:
        self.inner = TransactionalDictStore()
        self.store = TransactionalKeyValueStore(self.inner)
        self.store.init(StateStoreContext("app", "0_0", Path("stores")), self.store)
        self.current: dict[bytes, bytes] = {}
        self.committed: dict[bytes, bytes] = {}

    @rule(changes=st.dictionaries(keys, values, min_size=1))
    def put(self, changes: dict[bytes, bytes | None]) -> None:
        self.store.put_all(changes.items())
        self.current = {key: value for key, value in {**self.current, **changes}.items() if value is not None}

    @rule()
    def commit(self) -> None:
        self.store.commit({})
        self.committed = self.current

    @rule()
    def rollback(self) -> None:
        self.store.rollback()
        self.current = self.committed

    @invariant()
    def it_shows_its_own_writes_and_the_store_what_was_committed(self) -> None:
        assert list(self.store.all()) == sorted(self.current.items())
        assert list(self.store.reverse_all()) == sorted(self.current.items(), reverse=True)
        assert self.inner.rows == self.committed
        assert self.inner.open_transactions() == [self.store.transaction]


TestTransactions = pytest.mark.kip("892-04")(pytest.mark.kip("892-05")(Transactions.TestCase))
TestWrapped = pytest.mark.kip("892-11")(Wrapped.TestCase)
