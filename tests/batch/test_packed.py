"""Records between the stages of a batch: blocks that a task merges, whatever their sizes and however many send."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

from penstock.engine.batch import packed
from penstock.engine.batch.rows import RESULT, SORTED_BY
from penstock.log.records import Records


class Sent(NamedTuple):
    """A record that a task sends."""

    clock: int
    cause: int | None
    input: int
    sender: int
    seq: int

    @property
    def place(self) -> tuple[int, ...]:
        return self.clock, -1 if self.cause is None else self.cause, self.input, self.sender, self.seq


def test_blocks_of_two_tasks_are_merged_by_clock_then_task_then_number() -> None:
    one = [Sent(10, None, 0, 0, 0), Sent(20, None, 0, 0, 1), Sent(20, None, 0, 0, 2), Sent(70, None, 0, 0, 3)]
    other = [Sent(10, None, 0, 1, 0), Sent(20, None, 0, 1, 1), Sent(60, None, 0, 1, 2)]
    assert _merged(_blocks(one, 2) + _blocks(other, 2)) == [
        "0-0", "1-0", "0-1", "0-2", "1-1", "1-2", "0-3",
    ]  # fmt: skip


@pytest.mark.parametrize("seed", range(30))
def test_blocks_of_any_sizes_give_the_order_of_rows(seed: int) -> None:
    chosen = random.Random(seed)
    with_causes, blocks, every = chosen.random() < 0.5, [], []
    for input_ in range(chosen.randint(1, 2)):
        for sender in range(chosen.randint(1, 4)):
            places = sorted((chosen.randint(0, 9), chosen.randint(0, 3)) for _ in range(chosen.randint(1, 30)))
            causes = with_causes and input_ == 0
            sent = [Sent(c, d if causes else None, input_, sender, n) for n, (c, d) in enumerate(places)]
            every += sent
            blocks += _blocks(sent, chosen.randint(1, 12))
    assert _merged(blocks) == [f"{one.sender}-{one.seq}" for one in sorted(every, key=lambda one: one.place)]


def test_a_task_holds_one_block_of_each_sender() -> None:
    blocks = [one for sender in range(3) for one in _blocks([Sent(n, None, 0, sender, n) for n in range(90)], 10)]
    taken = given = 0
    most = 0

    def counted() -> Any:
        nonlocal taken
        for block in _sorted(blocks):
            taken += 10
            yield block

    for batch in packed.merged(counted()):
        most = max(most, taken - given)
        given += batch.num_rows
    assert given == 270
    assert most <= 40  # one of each sender, and the one that has just come


def test_records_that_become_rows_keep_all_columns() -> None:
    sent = [Sent(5, 7, 0, 3, 0), Sent(6, 8, 0, 3, 1)]
    (batch,) = packed.as_rows(_blocks(sent, 2))
    assert batch.to_pylist() == [
        {
            "partition": 1, "clock": clock, "cause": cause, "sender": 3, "seq": seq, "timestamp": clock,
            "key": f"3-{seq}".encode(), "value": b"v", "old": None, "headers": None,
        }
        for clock, cause, seq in ((5, 7, 0), (6, 8, 1))
    ]  # fmt: skip


def test_a_block_has_few_bytes_where_records_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "BLOCK_BYTES", 1000)
    records = Records(0, pa.array([b"k"] * 10), pa.array([b"x" * 400] * 10), np.arange(10))
    blocks = list(packed.packed(0, 0, records, np.arange(10), None, 0, 0))
    assert [batch["seq"].to_pylist() for batch in blocks] == [[0], [2], [4], [6], [8]]
    assert [batch.num_rows for batch in packed.merged(blocks)] == [2] * 5


def _blocks(sent: list[Sent], rows: int) -> list[Any]:
    """Blocks of so many records, each in a row with its input."""
    found = []
    for start in range(0, len(sent), rows):
        some = sent[start : start + rows]
        clock = np.array([one.clock for one in some])
        cause = None if some[0].cause is None else np.array([one.cause for one in some])
        keys = pa.array([f"{one.sender}-{one.seq}".encode() for one in some])
        records = Records(0, keys, pa.array([b"v"] * len(some)), clock)
        for row in packed.packed(5, 1, records, clock, cause, some[0].sender, some[0].seq):
            assert row.schema == RESULT
            found.append(row.append_column("input", pa.array([some[0].input], pa.int32())))
    return found


def _sorted(blocks: list[Any]) -> list[Any]:
    """Blocks as Spark sorts them, in batches of one."""
    table = pa.Table.from_batches(blocks)
    order = sorted(
        range(len(table)),
        key=lambda n: tuple(-1 if table[name][n].as_py() is None else table[name][n].as_py() for name in SORTED_BY),
    )
    return [one for n in order for one in table.slice(n, 1).to_batches()]


def _merged(blocks: list[Any]) -> list[str]:
    """The keys of the records of blocks, merged."""
    return [key.as_py().decode() for batch in packed.merged(_sorted(blocks)) for key in batch["key"]]
