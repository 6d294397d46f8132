"""What tasks send through a repartition topic, in the order of time: one case for each rule."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from penstock.columns.batch import Batch
from penstock.columns.column import BytesColumn
from penstock.engine.shared import exchange
from penstock.engine.shared.exchange import ExchangeRef, ExchangeWriter
from penstock.engine.task import merged
from penstock.engine.task.merged import Bound, MergedExchange
from penstock.serdes import STR
from penstock.storage.base import LocalStorage

Sent = tuple[str, int]
"""A value and its clock."""


class Tasks:
    """Tasks that send values, one file for each sending."""

    def __init__(self, folder: Path):
        self.storage = LocalStorage(folder)
        self.refs: list[ExchangeRef] = []

    def send(self, task: str, *batches: list[Sent]) -> None:
        name = f"exchange/{len(self.refs)}"
        with ExchangeWriter(self.storage, name, task) as writer:
            for sent in batches:
                values, clocks = (list(column) for column in zip(*sent, strict=True))
                column = BytesColumn(STR.encode_all(values), STR)
                order = (np.arange(len(sent)),)
                batch, causes = Batch(column, column, np.array(clocks), order), np.zeros(len(sent), np.int64)
                writer.write(0, batch, np.array(clocks), None, causes)
        self.refs += writer.refs()

    def merged(self, bound: Bound | None = None, by_cause: bool = False, **limits: int) -> MergedExchange:
        return MergedExchange(self.storage, self.refs, 0, bound, by_cause=by_cause, **limits)


@pytest.fixture(params=["small", "in parts"])
def tasks(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Tasks:
    """Their files are small, or of the larger ones; of these each record batch is a part."""
    if request.param == "in parts":
        monkeypatch.setattr(exchange, "_HELD_BYTES", 0)
    return Tasks(tmp_path)


def given(merged: MergedExchange) -> str:
    return "".join(value for records in merged for value in STR.decode_all(records.value))


def test_the_lowest_clock_goes_first(tasks: Tasks) -> None:
    tasks.send("0_0", [("a", 10), ("c", 20), ("e", 40)])
    tasks.send("0_1", [("b", 15), ("d", 30), ("f", 60)])
    assert given(tasks.merged()) == "abcdef"


def test_of_equal_clocks_the_lower_task_goes_first_and_then_the_order_of_sending(tasks: Tasks) -> None:
    tasks.send("0_10", [("e", 5), ("f", 5)])
    tasks.send("0_2", [("c", 5), ("d", 5)])
    tasks.send("0_1", [("a", 5), ("b", 5)])
    assert given(tasks.merged()) == "abcdef"


def test_what_a_task_sent_in_an_earlier_commit_goes_before_what_it_sent_later(tasks: Tasks) -> None:
    tasks.send("0_0", [("a", 10)])
    tasks.send("0_1", [("b", 15)])
    tasks.send("0_0", [("c", 20)])
    assert given(tasks.merged()) == "abc"


def test_a_late_record_goes_directly_behind_what_was_before_it(tasks: Tasks) -> None:
    tasks.send("0_0", [("b", 30), ("c", 5), ("e", 50)])
    tasks.send("0_1", [("a", 20), ("d", 40)])
    assert given(tasks.merged()) == "abcde"


def test_nothing_is_given_behind_what_may_still_come(tasks: Tasks) -> None:
    """Task 0_0 may still send a record of clock 40; of two of that clock its own goes first."""
    tasks.send("0_0", [("a", 10), ("c", 40)])
    tasks.send("0_1", [("b", 15), ("d", 40), ("e", 60)])
    assert given(tasks.merged(Bound.of(40, "0_0"))) == "abc"
    assert given(tasks.merged(Bound.of(40, "0_1"))) == "abcd"


@pytest.mark.parametrize("limits", [{"records": 1}, {"records": 3}, {"nbytes": 1}, {"nbytes": 40}])
def test_what_is_looked_at_together_does_not_show(tasks: Tasks, limits: dict[str, int]) -> None:
    tasks.send("0_0", [("a", 10)], [("c", 20), ("e", 40)], [("h", 90)])
    tasks.send("0_1", [("b", 15), ("d", 30)], [("f", 60), ("g", 60)])
    assert given(tasks.merged(**limits)) == "abcdefgh"


@pytest.mark.parametrize("limits", [{"records": 2}, {"nbytes": 1}, {"nbytes": 30}, {"nbytes": 70}, {"nbytes": 9999}])
def test_of_one_clock_and_cause_the_lower_task_goes_first_wherever_chunks_are_cut(
    tasks: Tasks, limits: dict[str, int]
) -> None:
    """Task 0_0 has more of that cause to read when what waits of it is at its end."""
    tasks.send("0_0", [("a", 5)], [("b", 5)], [("c", 5)])
    tasks.send("0_1", [("d", 5)], [("e", 5)])
    assert given(tasks.merged(by_cause=True, **limits)) == "abcde"


def test_causes_are_looked_at_only_where_they_decide(tasks: Tasks, monkeypatch: pytest.MonkeyPatch) -> None:
    looked = []
    monkeypatch.setattr(merged, "in_order", lambda clock, cause: looked.append(cause) or cause)
    tasks.send("0_0", [("a", 10), ("b", 20)])
    assert given(tasks.merged()) == "ab"
    assert not looked
    assert given(tasks.merged(by_cause=True)) == "ab"
    assert looked


@pytest.mark.parametrize("taken", range(7))
def test_what_is_left_goes_on_in_the_same_order(tasks: Tasks, taken: int) -> None:
    tasks.send("0_0", [("a", 10), ("c", 20)], [("e", 40)])
    tasks.send("0_1", [("b", 15), ("d", 30), ("f", 60)])
    merged = tasks.merged(records=2)
    assert given(merged) == "abcdef"
    tasks.refs = merged.left(taken)
    assert given(tasks.merged()) == "abcdef"[taken:]
    first = min((ref.clock for ref in tasks.refs), default=None)
    assert first == [10, 15, 20, 30, 40, 60, None][taken]


def test_what_is_left_is_known_even_of_what_was_never_looked_at(tasks: Tasks) -> None:
    tasks.send("0_0", [("a", 10)], [("b", 20)])
    tasks.send("0_1", [("c", 50)])
    merged = tasks.merged(Bound.of(10, "0_0"), records=1)
    assert given(merged) == "a"
    left = merged.left(1)
    assert [(ref.task, ref.clock) for ref in left] == [("0_0", 20), ("0_1", 50)]
    assert given(MergedExchange(tasks.storage, left)) == "bc"


def test_offsets_go_on_in_the_order_given(tasks: Tasks) -> None:
    tasks.send("0_0", [("a", 10), ("c", 20)])
    tasks.send("0_1", [("b", 15)])
    merged = MergedExchange(tasks.storage, tasks.refs, 100, records=2)
    assert [offset for records in merged for offset in records.offsets] == [100, 101, 102]
