"""The fixed processors and transformers that cases name, and the stores that cases add for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from penstock import (
    STREAM_TIME,
    AggregationWithHeaders,
    FixedKeyProcessor,
    Processor,
    Record,
    Stores,
    ValueAndTimestamp,
    ValueTimestampHeaders,
    ValueTransformerWithKey,
)
from penstock.record import SessionKey, Windowed
from penstock.serdes import INT, STR, Serde
from penstock.state.shapes import SessionStore, VersionedKeyValueStore, VersionedRecord, WindowStore
from penstock.testing.oracle.described import DESCRIBED
from penstock.testing.oracle.functions import CaseError, Spec, number, text
from penstock.testing.oracle.punctuations import plain, schedule_all
from penstock.values.durations import MAX_MS

Step = Callable[[Any, Any, int], object]
"""Processes the key, the value and the timestamp of one record."""

_KEEPING_VALUES = ("forward_times", "router", "filter_new", "shift", "put_value", "write_table")
_TIMESTAMPED = "timestamped_"
_WITH_HEADERS = "_with_headers"


def result_type(fn: Spec, value: Serde) -> Serde:
    """Return the type of the values that a processor forwards."""
    if fn["fn"] in ("counter", "put_count"):
        return INT
    return value if fn["fn"] in _KEEPING_VALUES else STR


def shown(value: Any) -> str:
    """Return a value of a store as text, with its times."""
    if isinstance(value, ValueAndTimestamp | VersionedRecord):  # Kafka Streams does not tell here where a version ends
        return f"{text(value.value)}@{value.timestamp}"
    if isinstance(value, ValueTimestampHeaders):
        return f"{text(value.value)}@{value.timestamp}{_shown_headers(value.headers)}"
    if isinstance(value, AggregationWithHeaders):
        return f"{text(value.aggregation)}{_shown_headers(value.headers)}"
    if isinstance(value, Windowed | SessionKey):
        return f"[{text(value.key)}@{value.start}/{value.end}]"
    return text(value)


def _shown_headers(headers: Iterable[tuple[str, bytes]]) -> str:
    return "{" + ",".join(f"{name}:{value.decode()}" for name, value in headers) + "}"


def _rows(rows: Iterable[tuple[Any, Any]]) -> str:
    return " ".join(f"{shown(key)}={shown(value)}" for key, value in rows)


class FixedProcessor(Processor[Any, Any]):
    """One processor of the catalogue.

    Args:
        fn: its name and its arguments.
        shapes: the shapes of the stores that were added, by name.
    """

    def __init__(self, fn: Spec, shapes: dict[str, str]):
        self._fn = fn
        self._shapes = shapes

    def init(self, context: Any) -> None:
        self.context = context
        store = self._fn.get("store")
        self.store: Any = None if store is None else context.get_state_store(store)
        self.shape = self._shapes.get(store or "", "timestamped_key_value")
        schedule_all(self._fn, self.store, context)
        if self._fn["fn"] not in _PROCESSORS:
            raise CaseError(f"unknown processor {self._fn}")
        work = _PROCESSORS[self._fn["fn"]](self, self._fn)
        self.process = lambda record: self._work(work, record)  # type: ignore[method-assign]

    def process(self, record: Record) -> None:
        raise AssertionError("init has put the work in this place")

    def _work(self, work: Step, record: Record) -> None:
        self.record = record
        work(record.key, record.value, record.timestamp)

    def forward(self, value: Any, timestamp: int, child: str | None = None) -> None:
        """Forward under the record's key, without its headers."""
        self.context.forward(Record(self.record.key, value, timestamp), child)


class FixedValuesProcessor(FixedProcessor, FixedKeyProcessor[Any, Any]):
    """The processor that a case names, for ``process_values``."""

    def forward(self, value: Any, timestamp: int, child: str | None = None) -> None:
        """Forward the record with another value and time."""
        self.context.forward(self.record.with_value(value).with_timestamp(timestamp), child)


def _counter(of: FixedProcessor, fn: Spec) -> Step:
    store, limit = of.store, fn.get("limit", MAX_MS)

    def work(key: Any, value: Any, timestamp: int) -> None:
        if key is None:
            return of.forward(-1, timestamp)
        before = store.get(key)
        count = number(plain(before)) + 1
        put: Any = ValueAndTimestamp(count, timestamp) if of.shape.startswith(_TIMESTAMPED) else count
        store.put(key, None if count >= limit else put)
        at = max(timestamp, before.timestamp) if isinstance(before, ValueAndTimestamp) else timestamp
        return of.forward(count, at)

    return work


def _put_count(of: FixedProcessor, fn: Spec) -> Step:
    store = of.store
    return lambda key, value, timestamp: key is None or store.put(key, 1 + number(store.get(key)))


def _put_value(of: FixedProcessor, fn: Spec) -> Step:
    def work(key: Any, value: Any, timestamp: int) -> None:
        of.store.put(key, value)
        of.forward(value, timestamp)

    return work


def _write_table(of: FixedProcessor, fn: Spec) -> Step:
    def work(key: Any, value: Any, timestamp: int) -> None:
        if key is not None:
            of.store.put(key, None if value is None else ValueAndTimestamp(value, timestamp))
        of.forward(value, timestamp)

    return work


def _filter_new(of: FixedProcessor, fn: Spec) -> Step:
    def work(key: Any, value: Any, timestamp: int) -> None:
        if key is not None and of.store.put_if_absent(key, 1) is None:
            of.forward(value, timestamp)

    return work


def _delete_on_null(of: FixedProcessor, fn: Spec) -> Step:
    store = of.store

    def work(key: Any, value: Any, timestamp: int) -> None:
        if key is None:
            return
        if value is None:
            of.forward(f"deleted {shown(store.delete(key))}", timestamp)
        else:
            before = store.get(key)
            store.put(key, number(before) + 1)
            of.forward(f"{shown(before)} {_rows(store.range(key, None))}", timestamp)

    return work


def _lookup(of: FixedProcessor, fn: Spec) -> Step:
    def found(key: Any, timestamp: int) -> str:
        store = of.store
        if isinstance(store, VersionedKeyValueStore):
            return f"{shown(store.get(key))} {shown(store.get(key, timestamp))}"
        if isinstance(store, WindowStore):
            return _rows(store.fetch(key, 0, timestamp))
        if isinstance(store, SessionStore):
            return _rows(store.find_sessions(key))
        return shown(store.get(key))

    return lambda k, v, t: of.forward(f"{text(v)}|{'-' if k is None else found(k, t)}", t)


def _all_rows(of: FixedProcessor, fn: Spec) -> Step:
    read = of.store.reverse_all if fn.get("reverse") else of.store.all
    return lambda key, value, timestamp: of.forward(_rows(read()), timestamp)


def _forward_times(of: FixedProcessor, fn: Spec) -> Step:
    def work(key: Any, value: Any, timestamp: int) -> None:
        for _ in range(fn["n"]):
            of.forward(value, timestamp)

    return work


def _shift(of: FixedProcessor, fn: Spec) -> Step:
    return lambda key, value, timestamp: of.forward(value, max(0, timestamp + fn["ms"]))


def _router(of: FixedProcessor, fn: Spec) -> Step:
    children = fn["children"]
    return lambda k, v, t: of.forward(v, t, None if v is None else children[number(v) % len(children)])


def _place(of: FixedProcessor, fn: Spec) -> Step:
    def work(key: Any, value: Any, timestamp: int) -> None:
        at, context = of.context.record_metadata, of.context
        place = "null--1--1" if at is None else f"{at.topic}-{at.partition}-{at.offset}"
        of.forward(f"{place} {context.current_stream_time_ms} {context.task_id}", timestamp)

    return work


def _versioned(of: FixedProcessor, fn: Spec) -> Step:
    store, back = of.store, int(fn.get("back_ms", 5))

    def work(key: Any, value: Any, timestamp: int) -> None:
        if key is None:
            return
        if value is None:
            did = f"deleted {shown(store.delete(key, timestamp))}"
        else:
            did = f"valid to {store.put(key, value, timestamp)}"
        before = shown(store.get(key, timestamp - back)) if timestamp >= back else "-"
        of.forward(f"{did}; {shown(store.get(key))}; {shown(store.get(key, timestamp))}; {before}", timestamp)

    return work


def _window(of: FixedProcessor, fn: Spec) -> Step:
    store, size = of.store, int(fn["size_ms"])
    back = int(fn.get("back_ms", size))
    fetch = store.backward_fetch if fn.get("backward") else store.fetch

    def work(key: Any, value: Any, timestamp: int) -> None:
        if key is None:
            return
        start = timestamp - timestamp % size
        before = store.get(key, start)
        inside = plain(before)
        after: Any = None if value is None else ("" if inside is None else f"{inside},") + text(value)
        if after is not None and of.shape.startswith(_TIMESTAMPED):
            after = ValueAndTimestamp(after, timestamp)
        store.put(key, after, start)
        of.forward(f"{shown(before)}; {_rows(fetch(key, max(0, timestamp - back), timestamp + size))}", timestamp)

    return work


def _session(of: FixedProcessor, fn: Spec) -> Step:
    store, gap = of.store, fn["gap_ms"]
    find = store.backward_find_sessions if fn.get("backward") else store.find_sessions

    def work(key: Any, value: Any, timestamp: int) -> None:
        if key is None:
            return
        start = end = timestamp
        merged, together = [], "" if value is None else text(value)
        for session, held in find(key, max(0, timestamp - gap), timestamp + gap):
            merged.append(session)
            start, end = min(start, session.start), max(end, session.end)
            together = f"{held},{together}"
        for session in merged:
            store.remove(session)
        if value is not None:
            store.put(SessionKey(key, start, end), together)
        same = shown(store.fetch_session(key, start, end))
        of.forward(f"{len(merged)} merged; {same}; {_rows(store.find_sessions(key))}", timestamp)

    return work


def _keep_headers(of: FixedProcessor, fn: Spec) -> Step:
    store, size = of.store, fn.get("size_ms", 1)

    def shown_rows(key: Any, value: Any, timestamp: int) -> str:
        headers, start = of.record.headers, timestamp - timestamp % size
        if isinstance(store, SessionStore):
            kept = None if value is None else AggregationWithHeaders(value, headers)
            store.put(SessionKey(key, start, timestamp), kept)
            return _rows(store.find_sessions(key))
        put = None if value is None else ValueTimestampHeaders(value, timestamp, headers)
        if isinstance(store, WindowStore):
            before = store.get(key, start)
            store.put(key, put, start)
            return f"{shown(before)}; {_rows(store.fetch(key, 0, timestamp))}"
        before = store.get(key)
        store.put(key, put)
        return f"{shown(before)}; {_rows(store.range(key, None))}"

    return lambda key, value, timestamp: (
        None if key is None else of.forward(shown_rows(key, value, timestamp), timestamp)
    )


def _later(of: FixedProcessor, fn: Spec) -> Step:
    """Schedule a single call, an interval of stream time after each record."""
    context, interval = of.context, fn["ms"]

    def work(key: Any, value: Any, timestamp: int) -> None:
        first = context.current_stream_time_ms

        def call(now: int) -> None:
            if now >= first + interval:
                scheduled.cancel()
                context.forward(Record(key, f"{text(value)} after {now}", now))

        scheduled = context.schedule(interval, STREAM_TIME, call)

    return work


_PROCESSORS: dict[str, Callable[[FixedProcessor, Spec], Step]] = {
    "counter": _counter,
    "put_count": _put_count,
    "put_value": _put_value,
    "write_table": _write_table,
    "filter_new": _filter_new,
    "delete_on_null": _delete_on_null,
    "lookup": _lookup,
    "rows": _all_rows,
    "forward_times": _forward_times,
    "shift": _shift,
    "router": _router,
    "place": _place,
    "versioned": _versioned,
    "window": _window,
    "session": _session,
    "keep_headers": _keep_headers,
    "later": _later,
}


class FixedTransformer(ValueTransformerWithKey[Any, Any]):
    """A transformer of the catalogue: ``calls`` counts its calls for the key, the others have no state."""

    def __init__(self, fn: Spec):
        self._fn = fn
        if fn["fn"] not in ("key_value", "unless_null", "calls", "lookup"):
            raise CaseError(f"unknown transformer {fn}")

    def init(self, context: Any) -> None:
        self._store: Any = context.get_state_store(self._fn["store"]) if "store" in self._fn else None
        schedule_all(self._fn, self._store, context)

    def transform(self, key: Any, value: Any) -> str | None:
        name, result = self._fn["fn"], f"{text(key)}:{text(value)}"
        if name == "calls":
            calls = 1 + number(self._store.get(key))
            self._store.put(key, calls)
            result = f"{text(value)}#{calls}"
        elif name == "lookup" and value is not None:
            result = f"{text(value)}|{shown(self._store.get(key))}"
        return None if value is None and name != "key_value" else result


def store_builder(spec: Spec, key: Serde, value: Serde) -> Any:
    """Return the builder of a store that a case adds."""
    name, shape, in_memory = spec["store"], spec["shape"], spec.get("kind") == "in_memory"
    what = "versioned_key_value_store" if shape == "versioned" else _store(shape)
    build = getattr(Stores, f"{what}_builder")
    if spec.get("kind") in DESCRIBED:
        supplier: Any = DESCRIBED[spec["kind"]](spec)
    elif shape == "versioned":
        supplier = Stores.persistent_versioned_key_value_store(
            name, spec["history_retention_ms"], spec.get("segment_interval_ms")
        )
    elif shape.startswith("session"):
        session = Stores.in_memory_session_store if in_memory else getattr(Stores, f"persistent_{_store(shape)}")
        supplier = session(name, spec["retention_ms"])
    elif "window" in shape:
        window = Stores.in_memory_window_store if in_memory else getattr(Stores, f"persistent_{_store(shape)}")
        supplier = window(name, spec["retention_ms"], spec["window_size_ms"])
    else:
        key_value = Stores.in_memory_key_value_store if in_memory else getattr(Stores, f"persistent_{_store(shape)}")
        supplier = key_value(name)
    return build(supplier, key, value)


def _store(shape: str) -> str:
    """Return a shape with the word ``store``, as the names of ``Stores`` have it."""
    plain = shape.removesuffix(_WITH_HEADERS)
    return f"{plain}_store{shape.removeprefix(plain)}"
