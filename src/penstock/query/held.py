"""The entries that suppressions and windows that emit on close hold back, and when these are due."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from penstock.engine.shared.layout import TaskId
from penstock.plan.node import Node
from penstock.query.checkpoint import Checkpoint
from penstock.query.committed import committed_stores
from penstock.state.kinds.buffer import TimeOrderedBuffer
from penstock.state.kinds.session import SessionStore
from penstock.state.kinds.window import WindowStore


@dataclass(frozen=True)
class Held:
    """The entries that one task holds back for a suppression, or for windows that emit on close."""

    node: str
    task: str
    records: int
    bytes: int | None
    """None for windows that emit on close: they are in the store of the aggregates, which is kept anyway."""
    stream_time: int
    """-1 before the first record."""
    first_goes_at: int | None
    """The stream time at which its oldest entry is emitted; None if nothing is held."""
    last_goes_at: int | None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def held_by(checkpoint: Checkpoint, node: Node) -> list[Held]:
    """The entries that each task holds back for a step, as of the last commit."""
    assert node.store is not None
    with committed_stores(checkpoint, node.store.name) as stores:
        found = {task: _held_in(checkpoint, node, task, store) for task, store in stores.items()}
    return [found[task] for task in sorted(found, key=lambda task: TaskId.parse(task).partition)]


def _held_in(checkpoint: Checkpoint, node: Node, task: str, store: Any) -> Held:
    assert node.hold is not None
    if isinstance(store, TimeOrderedBuffer):
        times = [time + node.hold.wait_ms for _, time, _, _ in store.rows()]
        return _of(node, task, times, store.numbers.get("bytes", 0), _time(checkpoint, task, node.name))
    open_ = [end + node.hold.wait_ms for end in _unclosed(checkpoint, node, task, store)]
    stream_time = max(_time(checkpoint, task, side.name) for side in node.sides or (node,))
    return _of(node, task, open_, None, stream_time)


def _unclosed(checkpoint: Checkpoint, node: Node, task: str, store: Any) -> list[int]:
    """The ends of the windows whose results have not been emitted yet: those after the emitted close time."""
    emitted = _time(checkpoint, task, f"{node.name}-emitted")
    if isinstance(store, SessionStore):
        ends = [session.end for session, _ in store.rows()]
    else:
        end_of = node.keeps.window_ends.of
        ends = [end_of(start) for _, start, _, _ in store.rows()]
    closes_at_end = isinstance(store, WindowStore)
    return [end for end in ends if end > emitted or (end == emitted and not closes_at_end)]


def _time(checkpoint: Checkpoint, task: str, clock: str) -> int:
    return int(checkpoint.manifest.tasks[task].numbers.get(clock, {}).get("stream_time", -1))


def _of(node: Node, task: str, times: list[int], nbytes: int | None, stream_time: int) -> Held:
    first, last = (min(times), max(times)) if times else (None, None)
    return Held(node.name, task, len(times), nbytes, stream_time=stream_time, first_goes_at=first, last_goes_at=last)
