"""The punctuations of the fixed processors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from penstock import STREAM_TIME, WALL_CLOCK_TIME, Record, ValueAndTimestamp, Windowed
from penstock.testing.oracle.functions import CaseError, Spec, number, text

_TIMES = {"stream_time": STREAM_TIME, "wall_clock": WALL_CLOCK_TIME}


def plain(value: Any) -> Any:
    """Return a value of a store without its timestamp."""
    return value.value if isinstance(value, ValueAndTimestamp) else value


def schedule_all(fn: Spec, store: Any, context: Any) -> None:
    """Schedule all punctuations of a case's function."""
    for one in fn.get("punctuate", []):
        _schedule(one, store, context)


def _schedule(one: Spec, store: Any, context: Any) -> None:
    if one["action"] not in _ACTIONS:
        raise CaseError(f"unknown action in {one}")
    act, calls = _ACTIONS[one["action"]], [0]

    def call(now: int) -> None:
        act(one, store, context, now)
        calls[0] += 1
        if calls[0] >= one.get("times", calls[0] + 1):
            scheduled.cancel()

    scheduled = context.schedule(one["interval_ms"], _TIMES[one["by"]], call)


def _tick(one: Spec, store: Any, context: Any, now: int) -> None:
    context.forward(Record("tick", now if one.get("as_long") else f"{now} {context.current_stream_time_ms}", now))


def _forward_rows(one: Spec, store: Any, context: Any, now: int) -> None:
    for key, value in _all(one, store):
        if isinstance(key, Windowed):
            at = f"@{value.timestamp}" if isinstance(value, ValueAndTimestamp) else ""
            row = f"[{text(key.key)}@{key.start}/{key.end}]={text(plain(value))}{at}"
            context.forward(Record(key.key, row, now))
        else:
            context.forward(Record(key, plain(value), now))


def _delete_rows(one: Spec, store: Any, context: Any, now: int) -> None:
    for key, value in _all(one, store):
        if number(plain(value)) >= one.get("at_least", 0):
            context.forward(Record(key, plain(value), now))
            store.delete(key)


def _clear(one: Spec, store: Any, context: Any, now: int) -> None:
    for key, _ in _all(one, store):
        store.delete(key)


def _put_tick(one: Spec, store: Any, context: Any, now: int) -> None:
    store.put("tick", number(store.get("tick")) + 1)


def _halve(one: Spec, store: Any, context: Any, now: int) -> None:
    """Change rows while iterating over them, and forward one after all."""
    total = 0
    for key, value in _all(one, store):
        total += value
        store.put(key, value // 2)
    context.forward(Record("sum", total, now))


def _all(one: Spec, store: Any) -> Iterator[tuple[Any, Any]]:
    before = "reverse_"
    if hasattr(store, "fetch_range"):
        before = "backward_"
        read, arguments = "fetch_range", [None, None, one.get("from", 0), one["to"]] if "to" in one else []
    else:
        read, arguments = ("range", [one["from"], one["to"]]) if "to" in one else ("all", [])
    rows: Iterator[tuple[Any, Any]] = getattr(store, before + read if one.get("reverse") else read)(*arguments)
    return rows


_ACTIONS: dict[str, Callable[[Spec, Any, Any, int], None]] = {
    "tick": _tick,
    "forward_rows": _forward_rows,
    "delete_rows": _delete_rows,
    "clear": _clear,
    "put_tick": _put_tick,
    "halve": _halve,
}
