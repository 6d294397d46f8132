"""The transactional store against a plain dictionary, under any sequence of operations."""

import shutil
import tempfile
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.state.columns import rows as state_rows
from penstock.state.database import Database
from penstock.state.transactional import TransactionalRows
from support.rows import changes_of, get, put

names = st.binary(max_size=3).map(lambda raw: bytes(b"\0a\xff"[byte % 3] for byte in raw)) | st.sampled_from(
    [b"long" * 100, b"long" * 100 + b"er", b"12345678", b"123456789"]
)
rows = st.tuples(st.none() | st.binary(max_size=4) | st.just(b"big" * 300), st.integers(-1, 2**62))
bounds = st.none() | names


class StoreMachine(RuleBasedStateMachine):
    """``current`` is what the transaction sees, ``committed`` what a rollback brings back, ``on_disk`` what a new
    process finds."""

    persistent = True

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.database = Database(self.folder) if self.persistent else None
        self.store = self.open()
        self.current: dict[bytes, tuple[bytes, int]] = {}
        self.committed: dict[bytes, tuple[bytes, int]] = {}
        self.on_disk: dict[bytes, tuple[bytes, int]] = {}
        self.written: list[bytes] = []

    def open(self) -> TransactionalRows:
        return TransactionalRows(self.database.family("store") if self.database else None)

    def teardown(self) -> None:
        if self.persistent:
            self.database.close()
        shutil.rmtree(self.folder)

    @rule(given=st.dictionaries(names, rows, min_size=1, max_size=6))
    def put(self, given) -> None:
        put(self.store, given)
        self.written += given
        for key, (value, timestamp) in given.items():
            if value is None:
                self.current.pop(key, None)
            else:
                self.current[key] = (value, timestamp)

    @rule(wanted=st.lists(names, unique=True))
    def get(self, wanted) -> None:
        assert [self.store.get_one(key) for key in wanted] == [self.current.get(key) for key in wanted]
        assert get(self.store, *wanted) == [self.current.get(key) for key in wanted]
        assert [self.store.get_one(key) for key in wanted] == [self.current.get(key) for key in wanted]

    @rule(low=bounds, high=bounds, reverse=st.booleans())
    def scan(self, low, high, reverse) -> None:
        inside = [k for k in self.current if (low is None or k >= low) and (high is None or k < high)]
        expected = [(k, *self.current[k]) for k in sorted(inside, reverse=reverse)]
        assert list(self.store.scan(low, high, reverse)) == expected

    @rule(prefix=names, reverse=st.booleans())
    def prefix_scan(self, prefix, reverse) -> None:
        inside = sorted((k for k in self.current if k.startswith(prefix)), reverse=reverse)
        assert list(self.store.prefix_scan(prefix, reverse)) == [(k, *self.current[k]) for k in inside]

    @rule()
    def commit(self) -> None:
        self.store.commit()
        self.committed, self.written = dict(self.current), []

    @rule()
    def rollback(self) -> None:
        self.store.rollback()
        self.current, self.written = dict(self.committed), []

    @precondition(lambda self: self.persistent)
    @rule()
    def flush(self) -> None:
        self.commit()
        self.database.write({"store": self.store.dirty_rows()}, {})
        self.store.flushed()
        self.on_disk = dict(self.committed)
        assert self.store.dirty_count() == 0

    @precondition(lambda self: self.persistent)
    @rule(everything=st.booleans())
    def evict(self, everything) -> None:
        self.flush()
        self.store.evict(everything)

    @precondition(lambda self: self.persistent)
    @rule()
    def crash_and_reopen(self) -> None:
        self.database.close()
        self.database = Database(self.folder)
        self.store = self.open()
        self.current, self.committed, self.written = dict(self.on_disk), dict(self.on_disk), []

    @precondition(lambda self: self.persistent)
    @rule()
    def bring_all_rows_into_memory(self) -> None:
        self.store.load_all()

    @invariant()
    def all_rows_are_there(self) -> None:
        expected = [(key, *self.current[key]) for key in sorted(self.current)]
        assert list(self.store.scan()) == expected
        assert list(self.store.scan(reverse=True)) == expected[::-1]

    @invariant()
    def the_transaction_knows_what_it_changed(self) -> None:
        assert changes_of(self.store.changes()) == {key: self.current.get(key) for key in self.written}
        assert self.store.approximate_num_uncommitted_entries == len(self.written)


class InMemoryMachine(StoreMachine):
    persistent = False


class CollidingMachine(StoreMachine):
    """All keys have one of two hashes, which even share their place in the index."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(state_rows, "hash64", lambda keys: np.array([len(k.as_py()) % 2 << 40 for k in keys], "u8"))
        self.patch.setattr(state_rows, "hash64_one", lambda key: len(key) % 2 << 40)

    def teardown(self) -> None:
        super().teardown()
        self.patch.undo()


for machine in (StoreMachine, CollidingMachine):  # they write to disk
    machine.TestCase.settings = settings(max_examples=settings.default.max_examples // 4)

TestStoreOverADatabase = pytest.mark.kip("892-07")(StoreMachine.TestCase)
TestStoreInMemory = pytest.mark.kip("892-11")(InMemoryMachine.TestCase)
TestStoreWithCollidingHashes = CollidingMachine.TestCase
