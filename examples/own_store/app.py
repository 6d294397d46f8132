"""Counts kept in SQLite: a state store of one's own, which takes part in Penstock's commits (KIP-892).

penstock run app.py:topology
sqlite3 .penstock/app/tasks/0_0.stores/counts.db "select key, hex(value) from entries"
"""

import sqlite3

from penstock import (
    AbstractTransactionalStore,
    BufferedTransaction,
    KeyValueStore,
    Materialized,
    StreamsBuilder,
    TimestampedBytesStore,
)


class SqliteStore(AbstractTransactionalStore, KeyValueStore[bytes, bytes], TimestampedBytesStore):
    """Keys, values and changelog offsets in one database, so that they are written together or not at all."""

    persistent = True

    def __init__(self, name):
        self.name = name

    def init(self, context, root):
        super().init(context, root)
        self.database = sqlite3.connect(context.state_dir / f"{self.name}.db")
        self.database.execute("create table if not exists entries (key blob primary key, value blob not null)")
        self.database.execute("create table if not exists offsets (changelog text primary key, at integer not null)")

    def close(self):
        super().close()
        self.database.close()

    # --- transactions and offsets ---

    def create_transaction(self):
        return BufferedTransaction(self, self.write)

    def write(self, changes, changelog_offsets):
        with self.database as database:  # all of it or nothing
            gone = [[key] for key, value in changes.items() if value is None]
            database.executemany("delete from entries where key = ?", gone)
            rows = [[key, value] for key, value in changes.items() if value is not None]
            database.executemany("insert or replace into entries values (?, ?)", rows)
            offsets = [[str(changelog), at] for changelog, at in changelog_offsets.items()]
            database.executemany("insert or replace into offsets values (?, ?)", offsets)

    def manages_offsets(self):
        return True

    def get_committed_offset(self, topic_partition):
        row = self.database.execute("select at from offsets where changelog = ?", [str(topic_partition)]).fetchone()
        return None if row is None else row[0]

    # --- reading and writing ---

    def put(self, key, value):
        self.write({key: value}, {})

    def get(self, key):
        row = self.database.execute("select value from entries where key = ?", [key]).fetchone()
        return None if row is None else row[0]

    def range(self, low=None, high=None):
        rows = self.database.execute(
            "select key, value from entries where key >= ? and (? is null or key <= ?) order by key",
            [low or b"", high, high],
        )
        return iter(rows.fetchall())


class Supplier:
    """Gives each task a store."""

    name = "counts"

    def get(self):
        return SqliteStore(self.name)


builder = StreamsBuilder()
departures = builder.stream("departures", value=str)
departures.group_by_key().count(materialized=Materialized.as_(Supplier())).to_stream().to("departures-by-airport")
topology = builder.build()
