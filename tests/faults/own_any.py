"""The program of ``program.py`` with stores of classes that no table has: processors write into them, and global tables
and an LRU map stand beside them.

python own_any.py FOLDER --fill N   make the input topics
python own_any.py FOLDER --local    process them without Spark
"""

from __future__ import annotations

import os
import sqlite3
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))  # where the tests' own stores are

import program
from own_stores import Journal

from penstock import (
    AbstractTransaction,
    AbstractTransactionalStore,
    FixedKeyProcessor,
    Materialized,
    StateStore,
    Stores,
    StreamsBuilder,
    Topology,
)
from penstock.log.file.log import FileLog
from penstock.log.produce import produce
from support.own_stores import SqliteStore, Supplier

SETTINGS = {"chunk_records": 7, "commit_max_bytes": 500, "statestore_uncommitted_max_records": 60}


class Tally(StateStore):
    """How often each word came. It extends no kind of store, is gone with its process, and logs what it does."""

    persistent = False
    is_open = False

    def __init__(self, name: str):
        self.name = name
        self.counts: dict[str, int] = {}

    def init(self, context: Any, root: Any) -> None:
        self.context, self.is_open = context, True
        context.register(root, self.restore)

    def restore(self, key: bytes, value: bytes | None) -> None:
        self.set(key.decode(), 0 if value is None else int(value))

    def set(self, word: str, count: int) -> None:
        self.counts[word] = count

    def of(self, word: str) -> int:
        return self.counts.get(word, 0)

    def add(self, word: str) -> int:
        """Count a word; every fifth time it begins anew."""
        count = (self.of(word) + 1) % 5
        self.context.log_change(self, word.encode(), b"%d" % count if count else None)
        self.set(word, count)
        return count

    def commit(self, changelog_offsets: Any) -> None: ...

    def close(self) -> None:
        self.is_open = False


class Files(Tally):
    """The same with a file for each word, which it writes at once, without transactions and offsets."""

    persistent = True

    def init(self, context: Any, root: Any) -> None:
        super().init(context, root)
        self.folder = context.state_dir / self.name
        self.folder.mkdir(exist_ok=True)

    def set(self, word: str, count: int) -> None:
        new = self.folder / "new"
        new.write_text(f"{count}")
        os.replace(new, self.folder / f"{word}.count") if count else (self.folder / f"{word}.count").unlink(True)

    def of(self, word: str) -> int:
        file = self.folder / f"{word}.count"
        return int(file.read_text()) if file.exists() else 0


class Adding(AbstractTransaction):
    """A transaction of a ledger: what it counts stays in memory until it ends."""

    def __init__(self, store: Ledger):
        super().__init__(store)
        self.ledger = store
        self.counts: dict[str, int] = {}

    def add(self, word: str) -> int:
        before = self.counts.get(word)
        count = self.counts[word] = ((self.ledger.of(word) if before is None else before) + 1) % 5
        self.ledger.context.log_change(self.ledger, word.encode(), b"%d" % count if count else None)
        return count

    def commit_transaction(self, offsets: Any) -> None:
        self.ledger.write(self.counts, offsets)

    def close_transaction(self) -> None:
        self.counts = {}


class Ledger(AbstractTransactionalStore):
    """The same in SQLite, with transactions and offsets."""

    persistent = True

    def __init__(self, name: str):
        self.name = name

    def init(self, context: Any, root: Any) -> None:
        super().init(context, root)
        self.context = context
        context.register(root, self.restore)
        self.database = sqlite3.connect(context.state_dir / f"{self.name}.db")
        self.database.execute("create table if not exists counts (word text primary key, count int)")
        self.database.execute("create table if not exists offsets (changelog text primary key, at int)")

    def close(self) -> None:
        super().close()
        self.database.close()

    def restore(self, key: bytes, value: bytes | None) -> None:
        self.write({key.decode(): 0 if value is None else int(value)}, {})

    def create_transaction(self) -> Adding:
        return Adding(self)

    def write(self, counts: dict[str, int], changelog_offsets: Any) -> None:
        with self.database as database:  # all of it or nothing
            database.executemany("delete from counts where word = ?", [[word] for word in counts])
            database.executemany("insert into counts values (?, ?)", [row for row in counts.items() if row[1]])
            offsets = [[str(changelog), at] for changelog, at in changelog_offsets.items()]
            database.executemany("insert or replace into offsets values (?, ?)", offsets)

    def manages_offsets(self) -> bool:
        return True

    def committed_offset(self, topic_partition: Any) -> int | None:
        row = self.database.execute("select at from offsets where changelog = ?", [str(topic_partition)]).fetchone()
        return None if row is None else int(row[0])

    def of(self, word: str) -> int:
        row = self.database.execute("select count from counts where word = ?", [word]).fetchone()
        return 0 if row is None else int(row[0])


KINDS: dict[str, type[StateStore]] = {"tally": Tally, "files": Files, "ledger": Ledger}
GLOBAL: dict[str, Any] = {"names-sqlite": SqliteStore, "names-journal": Journal}


def counting(name: str) -> type[FixedKeyProcessor]:
    class Counting(FixedKeyProcessor):
        def init(self, context: Any) -> None:
            self.context, self.store = context, context.get_state_store(name)

        def process(self, record: Any) -> None:
            self.context.forward(record.with_value(self.store.add(record.key)))

    return Counting


class Recent(FixedKeyProcessor):
    """What a user did the time before, for some users."""

    def init(self, context: Any) -> None:
        self.context, self.store = context, context.get_state_store("recent")

    def process(self, record: Any) -> None:
        before = self.store.get(record.key)
        self.store.put(record.key, record.value["n"])
        self.context.forward(record.with_value(-1 if before is None else before))


def topology() -> Topology:
    builder = StreamsBuilder()
    clicks = builder.stream(program.INPUT, key=str, value=dict)
    for name, kind in KINDS.items():
        builder.add_state_store(Supplier(kind, name))
        clicks.process_values(counting(name), name, value=int).to(f"{name}-out")
    builder.add_state_store(Stores.key_value_store_builder(Stores.lru_map("recent", 40), str, int))
    clicks.process_values(Recent, "recent", value=int).to("recent-out")
    for name, kind in GLOBAL.items():
        names = builder.global_table(name, str, str, materialized=Materialized.as_(Supplier(kind, name)))
        clicks.join(names, lambda click, of: f"{click['n']} {of}", key_selector=lambda user, click: click["page"],
                    value=str).to(f"{name}-out")  # fmt: skip
    return builder.build()


def fill(log: FileLog, count: int) -> None:
    program.fill(log, count)
    rows = [(f"page-{n % 25}", f"name {n}", n) for n in range(60)]
    for topic in GLOBAL:
        produce(rows, topic, key=str, value=str, log=log, partitions=2)


if __name__ == "__main__":
    folder, mode = Path(sys.argv[1]), sys.argv[2]
    if mode == "--fill":
        fill(FileLog(folder / "log"), int(sys.argv[3]))
    else:
        program.MODES[mode](folder, topology(), **SETTINGS)
