"""The stores of a test driver, to write as well: what a test begins with, or a change in the midst of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from penstock.arrays import binary, partitions
from penstock.engine.flow import Flow
from penstock.engine.lowering.processors import new_view
from penstock.errors import ConfigError
from penstock.ops.core.context import Context
from penstock.plan.topology import Topology
from penstock.query.commits import StoreShape
from penstock.query.key_value import BufferView
from penstock.query.stores import AnyView
from penstock.record import SessionKey, ValueAndTimestamp, Windowed
from penstock.state.records.view import RecordView
from penstock.state.records.views import has_record_view
from penstock.state.task_state import TaskState

NO_TIMESTAMP = -1
"""The time of what is put as a plain value into a store that keeps times, as in Kafka Streams."""

_KINDS = {
    "key_value": "KeyValueRecords",
    "window": "WindowRecords",
    "session": "SessionRecords",
    "versioned": "VersionedRecords",
}


class DriverStore:
    """A store with the methods that processors have of it; each call is a commit of its own.

    Args:
        views: the store in each of its tasks.
        commit: has what was written committed.
        plain: whether values come and go without the timestamps that the store keeps.
        task_of: the number of the task that a key belongs to; None where all tasks have all rows, as of global tables.
    """

    def __init__(
        self,
        name: str,
        views: list[RecordView[Any]],
        commit: Callable[[], None],
        plain: bool,
        task_of: Callable[[Any], int] | None,
    ):
        self._name = name
        self._views = views
        self._commit = commit
        self._plain = plain
        self._task_of = task_of

    def __repr__(self) -> str:
        return f"<DriverStore {self._name!r}>"

    def __getattr__(self, method: str) -> Any:
        if method.startswith("_") or not callable(getattr(type(self._views[0]), method, None)):
            raise AttributeError(f"{self!r} has no method {method!r}")

        def call(*arguments: Any, **keywords: Any) -> Any:
            given = [self._timed(method, place, one) for place, one in enumerate(arguments)]
            given_by_name = {name: self._timed(method, 1, one) for name, one in keywords.items() if name == "value"}
            result = self._of_tasks(method, given, keywords | given_by_name)
            self._commit()
            return self._shown(result)

        return call

    def _of_tasks(self, method: str, arguments: list[Any], keywords: dict[str, Any]) -> Any:
        """What a method gives: writes go to the task that the key belongs to, reads find what all tasks have."""
        if self._task_of is None or len(self._views) == 1:
            every = [_called(view, method, arguments, keywords) for view in self._views]
            return every[0]
        if method == "put_all":
            for entry in arguments[0] if arguments else keywords["entries"]:
                _called(self._views[self._task_of(entry[0])], method, [[entry]], {})
            return None
        if method in _WRITES:
            key = arguments[0] if arguments else next(iter(keywords.values()))
            return _called(self._views[self._task_of(key)], method, arguments, keywords)
        found = [_called(view, method, arguments, keywords) for view in self._views]
        if isinstance(found[0], list):
            return [row for rows in found for row in rows]
        if method == "approximate_num_entries":
            return sum(found)
        return next((one for one in found if one is not None), None)

    def _timed(self, method: str, place: int, given: Any) -> Any:
        """What is put, as the store keeps it."""
        if not self._plain or (place == 0 and method != "put_all"):
            return given
        if method == "put_all":
            return [(key, self._with_time(value)) for key, value in given]
        return self._with_time(given) if method in ("put", "put_if_absent") and place == 1 else given

    @staticmethod
    def _with_time(value: Any) -> Any:
        return (
            value if value is None or isinstance(value, ValueAndTimestamp) else ValueAndTimestamp(value, NO_TIMESTAMP)
        )

    def _shown(self, found: Any) -> Any:
        if not self._plain:
            return iter(found) if isinstance(found, list) else found
        if isinstance(found, list):
            return iter([(key, _without_time(value)) for key, value in found])
        return _without_time(found)


def _without_time(found: Any) -> Any:
    return found.value if isinstance(found, ValueAndTimestamp) else found


def _called(view: RecordView[Any], method: str, arguments: list[Any], keywords: Mapping[str, Any]) -> Any:
    """What a method gives of a store that is open for as long as it takes."""
    view.begin()
    try:
        found = getattr(view, method)(*arguments, **keywords)
        found = list(found) if isinstance(found, Iterator) else found
    except BaseException:
        view.abandon()
        raise
    view.end()
    return found


def _check_kind(name: str, kind: str, view: RecordView[Any]) -> None:
    """Raise ``ConfigError`` unless a store is of a kind."""
    kinds = {one.__name__ for one in type(view).__mro__}
    if kind and _KINDS[kind] not in kinds:
        is_ = next(said for said, own in _KINDS.items() if own in kinds)
        raise ConfigError(f"the store {name!r} is a {is_} store, no {kind} store; get_{is_}_store gives it")


_WRITES = ("put", "put_all", "put_if_absent", "delete", "remove")


def _with_writes(view: AnyView, store: DriverStore) -> AnyView:
    """A view that can be written as well."""
    for method in _WRITES:
        if (write := getattr(store, method, None)) is not None:
            setattr(view, method, write)
    return view


class StoreAccess:
    """The stores of a driver by Kafka's names."""

    topology: Topology
    _shapes: dict[str, StoreShape]
    _tasks: list[tuple[Flow, TaskState, Context]]

    def _view(self, name: str) -> AnyView:
        """A store, to read."""
        raise NotImplementedError

    def store(self, name: str) -> Any:
        """A state store: ``get``, ``range``, ``all``, window stores also ``fetch``; and ``put`` and its like.

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
        """A store as its processors have it: to read and to write, values with timestamps where it keeps them.

        Raises:
            ConfigError: there is no such store.
        """
        return self._writable(name, plain=False)

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
        return self._writable(name, "key_value", plain=False)

    def get_versioned_key_value_store(self, name: str) -> DriverStore:
        """A versioned store: ``put(key, value, timestamp)``, ``get(key, as_of)``, ``delete(key, timestamp)``."""
        return self._writable(name, "versioned", plain=False)

    def get_window_store(self, name: str) -> DriverStore:
        """A window store, values without timestamps: ``put(key, value, window_start)``, ``fetch(key, from, to)``."""
        return self._writable(name, "window")

    def get_timestamped_window_store(self, name: str) -> DriverStore:
        """A window store, each value as a ``ValueAndTimestamp``."""
        return self._writable(name, "window", plain=False)

    def get_session_store(self, name: str) -> DriverStore:
        """A session store: ``put(session_key, aggregate)``, ``find_sessions(key, from, to)``, ``remove``."""
        return self._writable(name, "session", plain=False)

    def get_all_state_stores(self) -> dict[str, DriverStore]:
        """All stores that processors can have, by their names."""
        mine = [name for name in self._shapes if name in self.topology.facts.named()]
        return {name: self.get_state_store(name) for name in mine if self._has_record_view(name)}

    def _has_record_view(self, name: str) -> bool:
        return any(has_record_view(state.stores[name]) for _, state, _ in self._tasks if name in state.stores)

    def _writable(self, name: str, kind: str = "", plain: bool = True) -> DriverStore:
        """A store of a kind, with the methods that processors have of it."""
        self._view(name)  # unless there is none
        states = [state for _, state, _ in self._tasks if name in state.stores]
        views = [new_view(self.topology.facts, state.stores[name]) for state in states]
        _check_kind(name, kind, views[0])
        serde = self.topology.facts.named()[name].types[0]
        is_everywhere = self._shapes[name].format.is_everywhere

        def task_of(key: Any) -> int:
            data = serde.encode(key.key if isinstance(key, SessionKey | Windowed) else key)
            return int(partitions(binary([data]), len(states), 0)[0])

        def commit() -> None:
            for state in states:
                state.commit(state.at + 1)

        return DriverStore(name, views, commit, plain, None if is_everywhere else task_of)
