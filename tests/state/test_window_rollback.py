"""What a rolled back transaction leaves of the segments it began."""

from pathlib import Path

from penstock.state.database import Database
from penstock.state.kinds.window import WindowStore
from support.rows import keys_of, values_of

MINUTE = 60_000


def test_segments_of_a_rolled_back_transaction_get_no_column_families(tmp_path: Path):
    store = WindowStore("s", retention=2 * MINUTE)
    store.put(store.locate(keys_of([b"a"], [0])), values_of([(b"1", 0)]))
    store.commit()
    starts = [minute * MINUTE for minute in range(1, 9)]
    store.put(store.locate(keys_of([b"a"] * 8, starts)), values_of([(b"2", start) for start in starts]))
    store.rollback()
    database = Database(tmp_path / "db")
    database.write({name: piece.dirty_rows() for name, piece in store.families().items() if piece.dirty_count()}, {})
    store.flushed(database)
    assert database.families() == ["s/0"]
    assert list(store.rows()) == [(b"a", 0, b"1", 0)]
    store.put(store.locate(keys_of([b"a"], [MINUTE])), values_of([(b"3", MINUTE)]))
    assert list(store.rows()) == [(b"a", 0, b"1", 0), (b"a", MINUTE, b"3", MINUTE)]
    database.close()
