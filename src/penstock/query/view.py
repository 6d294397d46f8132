"""The common part of the views of all kinds of stores."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Self, TypeVar

import pyarrow as pa

from penstock.errors import ConfigError, StoreError
from penstock.messages import show
from penstock.notebooks import html_rows
from penstock.query.answers import Answer, Answers, StateQueryResult, answered
from penstock.query.arrow import TableShape, stream_of
from penstock.query.commits import StoreShape
from penstock.query.dicts import ALL_ROWS, Choice
from penstock.query.position import Position, PositionBound
from penstock.query.typed import Query, QueryConfig, StateQueryRequest
from penstock.query.versions import Live, OnePartition, Pinned, Source, Version, partition_of
from penstock.state.columns.headers import headers_of
from penstock.state.interface import IsolationLevel
from penstock.values.durations import MAX_MS
from penstock.values.times import Time, bound

T = TypeVar("T")


class View(ABC):
    """A store, read only. Each call shows the newest commit; what one call gives is of one commit.

    A view may be closed, or used in a ``with`` block. Threads may share it.
    """

    def __init__(self, source: Source, shape: StoreShape):
        self._source = source
        self._shape = shape
        self._key = shape.key
        self._value = shape.value
        self._is_closed = False
        self._seen = source.now()
        self._closing: list[Callable[[], object]] = []
        self._level: IsolationLevel | None = None
        self._at_level: Callable[[IsolationLevel], View] | None = None

    def at_level(self, level: IsolationLevel, other: Callable[[IsolationLevel], View]) -> None:
        """Say at which level the view reads, and how to get it at another one."""
        self._level, self._at_level = level, other

    @property
    def isolation_level(self) -> IsolationLevel:
        """Whether the view shows uncommitted writes."""
        return self._level or IsolationLevel.READ_COMMITTED

    def read_only(self, isolation_level: IsolationLevel) -> Self:
        """The store at another isolation level (KIP-892).

        ``READ_COMMITTED`` shows the newest commit. ``READ_UNCOMMITTED`` shows what the running tasks have written, at
        once, whatever ``commit_interval`` is.

        >>> from penstock import IsolationLevel, StreamsBuilder
        >>> from penstock.testing import TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> _ = builder.table("prices", key=str, value=float, store="prices")
        >>> driver = TopologyTestDriver(builder.build())  # each record is a commit of its own
        >>> driver.pipe_input("prices", "apple", 1.5, 1000)
        >>> driver.store("prices").read_only(IsolationLevel.READ_COMMITTED).get("apple")
        1.5

        Raises:
            ConfigError: nobody can be asked for what is not committed; or it is asked of a snapshot.
        """
        if not isinstance(isolation_level, IsolationLevel):
            raise ConfigError(f"read_only takes an IsolationLevel; got {show(isolation_level)}")
        self._now()  # unless it is closed
        if isolation_level is self._level or (self._at_level is None and self._shows_all):
            return self
        if self._at_level is not None:
            return self._at_level(isolation_level)  # type: ignore[return-value]
        if isolation_level is IsolationLevel.READ_COMMITTED:
            return self
        raise ConfigError(
            f"this view of the store {self.name!r} shows what is committed, and cannot show more: ask the running "
            "program, by streams.store(...), for READ_UNCOMMITTED. Nothing was read"
        )

    @property
    def _shows_all(self) -> bool:
        """True if everything that is written is committed, as in a test driver."""
        source: Any = self._source
        while (below := getattr(source, "below", None)) is not None:
            source = below
        return isinstance(source, Live)

    def of_partition(self, partition: int) -> Self:
        """One partition of the store, which asks no other task (Kafka's ``StoreQueryParameters.withPartition``).

        >>> from penstock import StreamsBuilder
        >>> from penstock.testing import TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> _ = builder.table("prices", key=str, value=float, store="prices")
        >>> driver = TopologyTestDriver(builder.build(), partitions=2)
        >>> for fruit in ("apple", "fig", "lime"):
        ...     driver.pipe_input("prices", fruit, 1.5)
        >>> [[row[0] for row in driver.store("prices").of_partition(number).all()] for number in (0, 1)]
        [['fig', 'lime'], ['apple']]

        Raises:
            ConfigError: the store has no such partition.
        """
        there = sorted(map(partition_of, self._now().tasks))
        if type(partition) is not int or (there and partition not in there):
            shown = ", ".join(map(str, there))
            raise ConfigError(f"the store {self.name!r} has no partition {show(partition)}; its partitions: {shown}")
        view = type(self)(OnePartition(self._source, partition), self._shape)
        view._level, at_level = self._level, self._at_level
        if at_level is not None:
            view._at_level = lambda level: at_level(level).of_partition(partition)
        return view

    def snapshot(self) -> Self:
        """The store as it is now; later commits do not change it.

        >>> from penstock import StreamsBuilder
        >>> from penstock.testing import TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> builder.stream("words", value=str).group_by(lambda key, word: word).count("counts").to_stream().to("out")
        >>> driver = TopologyTestDriver(builder.build())
        >>> driver.pipe_input("words", None, "hello")
        >>> with driver.store("counts").snapshot() as before:
        ...     driver.pipe_input("words", None, "hello")
        ...     before.get("hello"), driver.store("counts").get("hello")
        (1, 2)
        """
        self._now()  # unless it is closed
        return type(self)(self._source.pinned(), self._shape)

    @property
    def name(self) -> str:
        """The store's name."""
        return self._shape.name

    @property
    def shape(self) -> StoreShape:
        """The kind of the store, and the types of its keys and values."""
        return self._shape

    @property
    def commit(self) -> int:
        """The number of the commit that is shown; -1 before the first."""
        return self._now().commit

    def position(self) -> Position:
        """The position of the processed input that the view shows: the last offset of each partition."""
        return self._now().position

    @property
    def version(self) -> Version:
        """The version that the view shows now."""
        return self._now()

    def query(
        self,
        query: Query,
        position_bound: PositionBound | None = None,
        partitions: set[int] | None = None,
        execution_info: bool = False,
        config: QueryConfig | None = None,
    ) -> StateQueryResult:
        """Ask a typed query, of all partitions as of one commit (KIP-796).

        Args:
            query: such as ``KeyQuery.with_key(key)``.
            position_bound: how far the input has to be processed; partitions that are not there yet say so.
            partitions: the partitions to ask; all by default.
            execution_info: include information about the execution in the results.
            config: the same in Kafka's form, and the isolation level of this query.

        >>> from penstock import KeyQuery, StreamsBuilder
        >>> from penstock.testing import TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> _ = builder.table("prices", key=str, value=float, store="prices")
        >>> driver = TopologyTestDriver(builder.build())
        >>> driver.pipe_input("prices", "apple", 1.5, 1000)
        >>> driver.store("prices").query(KeyQuery.with_key("apple")).only_partition_result.result
        1.5
        """
        bound = position_bound or PositionBound.unbounded()
        chosen = None if partitions is None else frozenset(partitions)
        told = config or QueryConfig()
        told_too = execution_info or told.collect_execution_info
        request = StateQueryRequest.in_store(self.name).with_query(query)
        view = self if told.isolation_level is None else self.read_only(told.isolation_level)
        return answered(view, replace(request, position_bound=bound, partitions=chosen, has_execution_info=told_too))

    def close(self) -> None:
        """Release the version that the view reads; the view cannot be read afterwards."""
        self._is_closed = True
        self._seen = Version(self._seen.commit, dict.fromkeys(self._seen.tasks))
        while self._closing:
            self._closing.pop()()

    def on_close(self, action: Callable[[], object]) -> None:
        """Register a function that is called when the view is closed."""
        self._closing.append(action)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _repr_html_(self) -> str:
        title = f"{self.name}, as of commit {self.commit}" if self.commit >= 0 else self.name
        return html_rows(title, self._dicts())

    def __repr__(self) -> str:
        count = len(self._seen.stores)
        tasks = " in 1 task" if count == 1 else f" in {count} tasks" if count else ", nothing committed yet"
        return f"<{type(self).__name__} of store {self.name!r}{tasks}{', closed' if self._is_closed else ''}>"

    # --- as a table ----------------------------------------------------------------------------------------------

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """All rows as a stream of Arrow batches, of one commit; pyarrow, DuckDB, polars and pandas read it.

        >>> import pyarrow as pa
        >>> from penstock import StreamsBuilder
        >>> from penstock.testing import TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> _ = builder.table("prices", key=str, value=float, store="prices")
        >>> driver = TopologyTestDriver(builder.build())
        >>> driver.pipe_input("prices", "apple", 1.5, 1000)
        >>> pa.table(driver.store("prices")).select(["key", "value"]).to_pylist()
        [{'key': 'apple', 'value': 1.5}]
        """
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def to_arrow(self) -> pa.RecordBatchReader:
        """The rows in batches of columns, as a reader of pyarrow's."""
        return stream_of(self._table_shape(), self._raw_rows(self._now()))

    @abstractmethod
    def _table_shape(self) -> TableShape:
        """The columns of the table."""

    @abstractmethod
    def _raw_rows(self, version: Version) -> Iterator[tuple[Any, ...]]:
        """All rows of the table, with keys and values as bytes."""

    # --- as dicts, and for typed queries ---------------------------------------------------------------------------

    @abstractmethod
    def _dicts(self, choice: Choice = ALL_ROWS) -> Iterator[dict[str, Any]]:
        """Some or all rows, as dicts with the names of the store's columns.

        Raises:
            ConfigError: a store of this kind cannot be read that way.
        """

    def _refuse_prefix(self, choice: Choice) -> None:
        if choice.prefix is not None:
            raise ConfigError(f"the store {self.name!r} is no key-value store, and only these are read by prefix")

    def _answers(self) -> Answers:
        """The types of queries that the store answers, and the functions that answer them."""
        return {}

    def _answer_to(self, query: Query) -> Answer | None:
        """Return the function that answers a query; None if the store does not answer queries of this type."""
        return self._answers().get(type(query))

    def _of_task(self, task: str, version: Version) -> Self:
        """The part of the store in one task, as of a version."""
        return type(self)(Pinned(Version(version.commit, {task: version.tasks[task]})), self._shape)

    # --- headers -------------------------------------------------------------------------------------------------

    @property
    def has_headers(self) -> bool:
        """Whether the store has headers (KIP-1271): its rows keep them, or show none, as those of tables."""
        return bool(self._shape.format.headers)

    def _check_headers(self) -> None:
        if not self.has_headers:
            raise ConfigError(
                f"the store {self.name!r} has no headers: describe it with Stores.persistent_timestamped_"
                'key_value_store_with_headers and its like, or set dsl_store_format="headers". Nothing was read'
            )

    def _with_headers(self, row: dict[str, Any], data: bytes) -> dict[str, Any]:
        """Return a row as a dict, with the headers of its value if the store has some."""
        return {**row, "headers": [list(pair) for pair in headers_of(data)]} if self.has_headers else row

    # --- for the kinds -------------------------------------------------------------------------------------------

    def _now(self) -> Version:
        if self._is_closed:
            raise StoreError(f"this view of the store {self.name!r} is closed; ask for the store again")
        self._seen = version = self._source.now()
        return version

    @property
    def _stores(self) -> tuple[Any, ...]:
        """The parts of the store in its tasks."""
        return self._now().stores

    def _encoded(self, key: Any) -> bytes | None:
        """The bytes of a bound of a range of keys; None for no bound."""
        return None if key is None else self._key.encode_to_bytes(key)

    def _first(self, find: Callable[[Any], T | None]) -> T | None:
        """The first result that is not None, task by task."""
        for store in self._stores:
            found = find(store)
            if found is not None:
                return found
        return None

    def _in_turn(self, rows: Callable[[Any], Iterator[T]], reverse: bool = False) -> Iterator[T]:
        """The rows of all tasks, one task after the other."""
        stores = self._stores
        return (row for store in (reversed(stores) if reverse else stores) for row in rows(store))


def at_most(time: Time) -> int:
    """The upper bound of a range of time."""
    return min(bound(time), MAX_MS)
