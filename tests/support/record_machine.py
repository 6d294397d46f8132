"""A record view against a model of plain Python, under any sequence of calls, chunks, commits, flushes and crashes."""

from __future__ import annotations

import shutil
import tempfile
from copy import deepcopy
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from penstock.columns.column import ValuesColumn
from penstock.state.database import Database
from penstock.state.store import StateStore


class RecordMachine(RuleBasedStateMachine):
    """``current`` is what the transaction sees, ``committed`` what a rollback brings back, ``on_disk`` what a new
    process finds. Calls of the view are rules of subclasses, which make the store, the view and the first model."""

    persistent = True
    keys: Any
    """What ``begin`` may be told of."""

    def new_store(self) -> StateStore:
        raise NotImplementedError

    def new_view(self, store: StateStore) -> Any:
        raise NotImplementedError

    def new_model(self) -> Any:
        return {}

    @initialize()
    def start(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.database = Database(self.folder) if self.persistent else None
        self.open()
        self.current, self.committed, self.on_disk = (self.new_model() for _ in range(3))
        self.numbers: dict[str, int] = {}
        self.view.begin()

    def open(self) -> None:
        self.store = self.new_store()
        self.store.open(self.database)
        self.view = self.new_view(self.store)

    def teardown(self) -> None:
        if self.database is not None:
            self.database.close()
        shutil.rmtree(self.folder)

    @rule(data=st.data(), known=st.booleans())
    def next_chunk(self, data, known) -> None:
        self.view.end()
        told = None
        if known:
            told = ValuesColumn(data.draw(st.lists(st.none() | self.keys, max_size=5)), self.view._keys.serde)
        self.view.begin(told)

    @rule()
    def commit(self) -> None:
        self.view.end()
        self.store.commit()
        self.committed = deepcopy(self.current)
        self.view.begin()

    @rule(ends=st.booleans())
    def rollback(self, ends) -> None:
        if ends:
            self.view.end()
        else:
            self.view.abandon()
        self.store.rollback()
        self.current = deepcopy(self.committed)
        self.view.begin()

    @precondition(lambda self: self.persistent)
    @rule(evict=st.sampled_from([None, False, True]))
    def flush(self, evict) -> None:
        self.commit()
        self.view.end()
        families = self.store.families().items()
        self.database.write({name: piece.dirty_rows() for name, piece in families if piece.dirty_count()}, {})
        self.store.flushed(self.database)
        self.on_disk, self.numbers = deepcopy(self.committed), self.store.state()
        if evict is not None:
            self.store.evict(everything=evict)
        self.view.begin()

    @precondition(lambda self: self.persistent)
    @rule()
    def crash_and_reopen(self) -> None:
        self.database.close()
        self.database = Database(self.folder)
        self.open()
        if self.numbers:
            self.store.restore_state(self.numbers)
        self.current, self.committed = deepcopy(self.on_disk), deepcopy(self.on_disk)
        self.view.begin()
