"""The stores of a test driver, which tests may also write: as initial state, or in the middle."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from heapq import merge
from inspect import signature
from typing import Any, Literal, NamedTuple, Self, cast

from penstock.arrays import binary, partitions
from penstock.engine.lowering.processors import new_view
from penstock.engine.task.flow import Flow
from penstock.errors import ConfigError, SerdeError
from penstock.ops.core.context import Context
from penstock.plan.topology import Topology
from penstock.query.commits import StoreShape
from penstock.query.key_value import BufferView
from penstock.query.stores import AnyView
from penstock.record import AggregationWithHeaders, SessionKey, ValueAndTimestamp, ValueTimestampHeaders, Windowed
from penstock.serdes import Serde, WindowedSerde
from penstock.state.interface import IsolationLevel
from penstock.state.kinds.own.direct import DirectStore
from penstock.state.kinds.segments import SegmentedStore
from penstock.state.records.session import SessionRecords
from penstock.state.records.versioned import VersionedRecords
from penstock.state.records.view import RecordView
from penstock.state.records.views import has_record_view
from penstock.state.shapes import KeyValueStore, SessionStore, VersionedKeyValueStore, WindowStore, pairs
from penstock.state.store import StateStore
from penstock.state.task_state import TaskState
from penstock.usage.java_names import KafkaNames

NO_TIMESTAMP = -1
"""The time of a plain value that is put into a store with times, as in Kafka Streams."""

Form = Literal["plain", "timed", "as kept"]
"""How values come and go: alone, with timestamps, or as processors have them."""
_PLAIN: Form = "plain"
_TIMED: Form = "timed"
_AS_KEPT: Form = "as kept"

_KINDS = {
    "key_value": "KeyValueRecords",
    "window": "WindowRecords",
    "session": "SessionRecords",
    "versioned": "VersionedRecords",
}
_INTERFACES: dict[str, type] = {
    "key_value": KeyValueStore,
    "window": WindowStore,
    "session": SessionStore,
    "versioned": VersionedKeyValueStore,
}


class DriverStore:
    """A store with the methods that processors have of it; each call is a commit of its own.

    Args:
        views: the store in each of its tasks.
        commit: has what was written committed.
        put: returns a value that is put in the form in which the store keeps it.
        show: returns a value that was read as callers see it.
        task_of: the number of the task that a key belongs to; None where all tasks have all rows, as of global tables.
        place_of: where a row comes that a method reads, among those of all tasks.
    """

    def __init__(
        self,
        name: str,
        views: list[RecordView[Any]],
        commit: Callable[[], None],
        put: Callable[[Any], Any],
        show: Callable[[Any], Any],
        task_of: Callable[[Any], int] | None,
        place_of: Callable[[str, Any], Any],
    ):
        self._name = name
        self._views = views
        self._commit = commit
        self._put_as = put
        self._show_as = show
        self._task_of = task_of
        self._place_of = place_of

    def __repr__(self) -> str:
        return f"<DriverStore {self._name!r}>"

    def __getattr__(self, method: str) -> Any:
        call = getattr(self._views[0], method, None) if not method.startswith("_") else None
        if method in _COUNTS:
            return sum(getattr(view, method) for view in self._views)
        if not callable(call):
            raise AttributeError(f"{self!r} has no method {method!r}")

        def called(*arguments: Any, **keywords: Any) -> Any:
            given = dict(signature(call).bind(*arguments, **keywords).arguments)
            result = self._of_tasks(method, self._timed(method, given))
            self._commit()
            return self._shown(result)

        return called

    def new_transaction(self) -> DriverTransaction:
        """Begin a transaction: a ``with`` block that commits by ``commit({})``, or undoes what it wrote."""
        return DriverTransaction(self)

    def _of_tasks(self, method: str, given: dict[str, Any]) -> Any:
        """Return a method's result: writes go to the task of the key, reads combine all tasks."""
        if self._task_of is None or len(self._views) == 1:
            return _called(method, [(view, given) for view in self._views])[0]
        if method == "put_all":
            entries: list[list[Any]] = [[] for _ in self._views]
            for entry in pairs(given["entries"]):
                entries[self._task_of(entry[0])].append(entry)
            _called(method, [(view, {"entries": some}) for view, some in zip(self._views, entries, strict=True)])
            return None
        if method in _WRITES:
            return _called(method, [(self._views[self._task_of(next(iter(given.values())))], given)])[0]
        found = _called(method, [(view, given) for view in self._views])
        if isinstance(found[0], list):
            is_reverse = method.startswith(("reverse_", "backward_"))
            return list(merge(*found, key=partial(self._place_of, method), reverse=is_reverse))
        if method == "approximate_num_entries":
            return sum(found)
        return next((one for one in found if one is not None), None)

    def _timed(self, method: str, given: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments of a write in the form that the store keeps."""
        if method == "put_all":
            return {"entries": [(key, self._put_as(value)) for key, value in pairs(given["entries"])]}
        if method in ("put", "put_if_absent"):
            name = "aggregate" if "aggregate" in given else "value"
            given[name] = self._put_as(given[name])
        return given

    def _shown(self, found: Any) -> Any:
        if isinstance(found, list):
            return iter([(key, self._show_as(value)) for key, value in found])
        return self._show_as(found)


class _InTransaction:
    """A view of a store, of which all methods but those that open and close it are a transaction's."""

    def __init__(self, view: RecordView[Any]):
        self.begin, self.end, self.abandon = view.begin, view.end, view.abandon
        view.begin()
        self.transaction = view.new_transaction()
        view.end()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.transaction, name)


class DriverTransaction(DriverStore):
    """A transaction of a driver's store, over all of its tasks."""

    def __init__(self, store: DriverStore):
        views: list[Any] = [_InTransaction(view) for view in store._views]
        forms = store._put_as, store._show_as
        super().__init__(store._name, views, lambda: None, *forms, store._task_of, store._place_of)
        self._commit_store = store._commit

    @property
    def is_open(self) -> bool:
        """Whether it can be read and written: until it is committed or closed."""
        return all(view.transaction.is_open for view in self._of_views())

    @property
    def isolation_level(self) -> IsolationLevel:
        """How much its reads see of other transactions."""
        return self._of_views()[0].transaction.isolation_level  # type: ignore[no-any-return]

    def commit(self, changelog_offsets: Mapping[Any, int]) -> None:
        """Make its writes in the store, and commit."""
        _called("commit", [(view, {"changelog_offsets": changelog_offsets}) for view in self._views])
        self._commit_store()

    def close(self) -> None:
        """Undo its writes; closing again does nothing."""
        for view in self._of_views():
            view.transaction.close()

    def _of_views(self) -> list[Any]:
        return list(self._views)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class _Kept(NamedTuple):
    """The form in which a store keeps values."""

    with_times: bool
    with_headers: bool


def _put_form(form: Form, kept: _Kept, value: Any) -> Any:
    """Return a value that is put in a form in the form in which the store keeps it."""
    if form == _AS_KEPT or value is None or isinstance(value, ValueTimestampHeaders | AggregationWithHeaders):
        return value
    if not kept.with_times:
        return AggregationWithHeaders(value)
    timed = value if isinstance(value, ValueAndTimestamp) else ValueAndTimestamp(value, NO_TIMESTAMP)
    return ValueTimestampHeaders(*timed) if kept.with_headers else timed


def _shown_form(form: Form, found: Any) -> Any:
    """Return a value of a store in a form."""
    if form == _AS_KEPT:
        return found
    if isinstance(found, AggregationWithHeaders):
        return found.aggregation
    if isinstance(found, ValueTimestampHeaders):
        found = ValueAndTimestamp(found.value, found.timestamp)
    return found.value if form == _PLAIN and isinstance(found, ValueAndTimestamp) else found


def _called(method: str, asked: list[tuple[RecordView[Any], Mapping[str, Any]]]) -> list[Any]:
    """Call a method of stores that are open meanwhile; if one of them refuses it, it takes effect in none."""
    for view, _ in asked:
        view.begin()
    try:
        every = [getattr(view, method)(**given) for view, given in asked]
        every = [list(found) if isinstance(found, Iterator) else found for found in every]
    except BaseException:
        for view, _ in asked:
            view.abandon()
        raise
    for view, _ in asked:
        view.end()
    return every


def _check_kind(name: str, kind: str, view: RecordView[Any]) -> None:
    """Raise ``ConfigError`` unless a store is of a kind."""
    kinds = {one.__name__ for one in type(view).__mro__}
    if kind and _KINDS[kind] not in kinds:
        is_ = next(said for said, own in _KINDS.items() if own in kinds)
        raise ConfigError(f"the store {name!r} is a {is_} store, no {kind} store; get_{is_}_store gives it")


_WRITES = ("put", "put_all", "put_if_absent", "delete", "remove")
_COUNTS = ("approximate_num_uncommitted_entries", "approximate_num_uncommitted_bytes")


def _with_writes(view: AnyView, store: DriverStore) -> AnyView:
    """Return a view with write methods added."""
    for method in (*_WRITES, "new_transaction"):
        if (write := getattr(store, method, None)) is not None:
            setattr(view, method, write)
    return view


class StoreAccess(KafkaNames):
    """The stores of a driver by Kafka's names."""

    topology: Topology
    _shapes: dict[str, StoreShape]
    _tasks: list[tuple[Flow, TaskState, Context]]

    def _view(self, name: str) -> AnyView:
        """Return a store, for reading."""
        raise NotImplementedError

    def store(self, name: str) -> Any:
        """Return a state store, to read and to write: it has ``get``, ``range``, ``all`` and ``put``; a window store
        also has ``fetch``.

        >>> from penstock import StreamsBuilder
        >>> from penstock.testing import TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> builder.stream("in").group_by_key().count("counts").to_stream().to("out")
        >>> driver = TopologyTestDriver(builder.build())
        >>> driver.store("counts").put("a", 41)
        >>> driver.pipe_input("in", "a", "x")
        >>> driver.store("counts").get("a")
        42
        """
        view = self._view(name)
        is_writable = name in self.topology.facts.named() and not isinstance(view, BufferView)
        is_writable = is_writable and self._has_record_view(name)
        return _with_writes(view, self._writable(name)) if is_writable else view

    def get_state_store(self, name: str) -> DriverStore:
        """A store as its processors have it: to read and to write, values with timestamps where it keeps them. A store
        of your own class that was added as it is comes as the object itself, that of the first task.

        Raises:
            ConfigError: there is no such store.
        """
        return self._handed(name) or self._writable(name, form=_AS_KEPT)

    def _handed(self, name: str, kind: str = "") -> DriverStore | None:
        """Return a store of the user's own class that was added as it is, that of the first task; None if the store is
        another."""
        self._view(name)  # raises if it does not exist
        store = next((found for _, state, _ in self._tasks if (found := state.stores.get(name)) is not None), None)
        if not isinstance(store, DirectStore):
            return None
        if kind and not issubclass(store.class_, _INTERFACES[kind]):
            raise ConfigError(
                f"the store {name!r} is a {store.class_.__name__}, no {kind} store; get_state_store gives the object "
                "itself"
            )
        return cast(DriverStore, store.handed)

    def get_key_value_store(self, name: str) -> DriverStore:
        """A key-value store, values without timestamps; what is put has none then (-1), as in Kafka Streams.

        >>> from penstock import StreamsBuilder
        >>> from penstock.testing import TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> _ = builder.table("prices", value=int, store="prices")
        >>> prices = TopologyTestDriver(builder.build()).get_key_value_store("prices")
        >>> prices.put("tea", 3)
        >>> prices.get("tea"), list(prices.all())
        (3, [('tea', 3)])

        Raises:
            ConfigError: there is no such store, or it is of another kind.
        """
        return self._writable(name, "key_value")

    def get_timestamped_key_value_store(self, name: str) -> DriverStore:
        """A key-value store, each value as a ``ValueAndTimestamp``."""
        return self._writable(name, "key_value", _TIMED)

    def get_timestamped_key_value_store_with_headers(self, name: str) -> DriverStore:
        """A key-value store with headers, each value as a ``ValueTimestampHeaders`` (KIP-1271).

        Raises:
            ConfigError: there is no such store, it is of another kind, or it has no headers.

        >>> from penstock import StreamsBuilder
        >>> from penstock.testing import TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> _ = builder.table("prices", value=int, store="prices")
        >>> driver = TopologyTestDriver(builder.build(), dsl_store_format="headers")
        >>> driver.pipe_input("prices", "tea", 3, 1000)
        >>> driver.get_timestamped_key_value_store_with_headers("prices").get("tea")
        ValueTimestampHeaders(value=3, timestamp=1000, headers=())
        """
        return self._with_headers(name, "key_value")

    def get_versioned_key_value_store(self, name: str) -> DriverStore:
        """A versioned store: ``put(key, value, timestamp)``, ``get(key, as_of)``, ``delete(key, timestamp)``."""
        return self._writable(name, "versioned", _AS_KEPT)

    def get_window_store(self, name: str) -> DriverStore:
        """A window store, values without timestamps: ``put(key, value, window_start)``, ``fetch(key, from, to)``."""
        return self._writable(name, "window")

    def get_timestamped_window_store(self, name: str) -> DriverStore:
        """A window store, each value as a ``ValueAndTimestamp``."""
        return self._writable(name, "window", _TIMED)

    def get_timestamped_window_store_with_headers(self, name: str) -> DriverStore:
        """A window store with headers, each value as a ``ValueTimestampHeaders`` (KIP-1271)."""
        return self._with_headers(name, "window")

    def get_session_store_with_headers(self, name: str) -> DriverStore:
        """A session store with headers, each value as an ``AggregationWithHeaders`` (KIP-1271)."""
        return self._with_headers(name, "session")

    def get_session_store(self, name: str) -> DriverStore:
        """A session store: ``put(session_key, aggregate)``, ``find_sessions(key, from, to)``, ``remove``."""
        return self._writable(name, "session")

    def get_all_state_stores(self) -> dict[str, DriverStore]:
        """All stores that processors can have, by their names."""
        mine = [name for name in self._shapes if name in self.topology.facts.named()]
        return {name: self.get_state_store(name) for name in mine if self._has_record_view(name)}

    def _has_record_view(self, name: str) -> bool:
        return any(has_record_view(state.stores[name]) for _, state, _ in self._tasks if name in state.stores)

    def _with_headers(self, name: str, kind: str) -> DriverStore:
        """Return a store of a kind with headers."""
        self._view(name)._check_headers()
        return self._writable(name, kind, _AS_KEPT)

    def _writable(self, name: str, kind: str = "", form: Form = _PLAIN) -> DriverStore:
        """Return a store of a kind, with the methods that processors have."""
        if (own := self._handed(name, kind)) is not None:
            return own
        states = [state for _, state, _ in self._tasks if name in state.stores]
        views = [new_view(self.topology.facts, state.stores[name]) for state in states]
        _check_kind(name, kind, views[0])
        spec, stores = self.topology.facts.named()[name], [state.stores[name] for state in states]
        is_everywhere = self._shapes[name].format.is_everywhere

        def commit() -> None:
            for state in states:
                state.commit(state.at + 1)

        task_of = None if is_everywhere else partial(_task_of, spec.types[0], len(states))
        place_of = partial(_place_of, stores[0], spec.types[0])
        is_timed = spec.is_timestamped and not isinstance(views[0], SessionRecords | VersionedRecords)
        if isinstance(views[0], VersionedRecords) or (not is_timed and spec.headers is None):
            form = _AS_KEPT
        keeps = _Kept(is_timed, spec.headers is not None)
        return DriverStore(
            name, views, commit, partial(_put_form, form, keeps), partial(_shown_form, form), task_of, place_of
        )


def _task_of(serde: Serde, tasks: int, key: Any) -> int:
    """Return the number of the task that a store's key belongs to; any task for an invalid key: each refuses it."""
    of_store = key if isinstance(serde, WindowedSerde) or not isinstance(key, SessionKey | Windowed) else key.key
    try:
        data = None if of_store is None else serde.encode(of_store)
    except SerdeError:
        data = None
    return int(partitions(serde.routing(binary([data])), tasks, 0)[0])


def _place_of(store: StateStore, serde: Serde, method: str, row: tuple[Any, Any]) -> Any:
    """Return the order of a row among those of all tasks, as in one store; a key's windows are ordered by time."""
    key = row[0]
    if not isinstance(store, SegmentedStore):
        return serde.encode_to_bytes(key)
    if isinstance(key, int) and method in ("fetch", "backward_fetch"):
        return key
    data, times = serde.encode_to_bytes(key.key), (key.end, key.start) if isinstance(key, SessionKey) else (key.start,)
    if store.in_memory:
        return times[0], data, times
    return times[0] // store.segment_interval, data + b"".join(time.to_bytes(8, "big") for time in times)
