"""Files that carry records between the tasks of a commit."""

from __future__ import annotations

from pathlib import Path

from penstock.engine.shared.exchange import ExchangeWriter
from penstock.storage.base import LocalStorage


def test_a_writer_that_was_given_no_records_leaves_no_file(tmp_path: Path) -> None:
    with ExchangeWriter(LocalStorage(tmp_path), "rows.arrow") as writer:
        pass
    assert (writer.refs(), list(tmp_path.iterdir())) == ([], [])
