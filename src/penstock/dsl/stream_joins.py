"""The joins of a stream: with another stream, with a table, with a global table."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast, overload

from penstock.dsl.global_table import GlobalKTable
from penstock.dsl.graph import K2, V2, Handle, K, R, StreamHandle, V
from penstock.dsl.joined import Joined, TableOptions
from penstock.dsl.stream import Stream, repartition_node
from penstock.errors import TopologyError
from penstock.messages import show
from penstock.plan import nodes
from penstock.plan.functions import caller
from penstock.plan.node import Node
from penstock.serdes import Serde
from penstock.values.durations import Duration

if TYPE_CHECKING:
    from penstock.dsl.kstream import KStream
    from penstock.dsl.ktable import KTable
    from penstock.dsl.stream_joined import StreamJoined
    from penstock.dsl.windows import JoinWindows


class StreamJoins(Stream[K, V]):
    """A stream as the joins see it; users have a ``KStream``."""

    @overload
    def join(
        self,
        other: KStream[K, V2] | KTable[K, V2],
        joiner: Callable[[V, V2], R],
        windows: JoinWindows | Joined | None = None,
        stream_joined: StreamJoined | None = None,
        value: Any = None,
        name: str | None = None,
        *,
        grace: Duration | None = None,
        joined: Joined | None = None,
    ) -> KStream[K, R]: ...

    @overload
    def join(
        self,
        other: KStream[K, V2] | KTable[K, V2],
        joiner: Callable[[K, V, V2], R],
        windows: JoinWindows | Joined | None = None,
        stream_joined: StreamJoined | None = None,
        value: Any = None,
        name: str | None = None,
        *,
        grace: Duration | None = None,
        joined: Joined | None = None,
    ) -> KStream[K, R]: ...

    @overload
    def join(
        self,
        other: GlobalKTable[K2, V2],
        joiner: Callable[[V, V2], R],
        *,
        key_selector: Callable[[K, V], K2 | None],
        value: Any = None,
        name: str | None = None,
    ) -> KStream[K, R]: ...

    @overload
    def join(
        self,
        other: GlobalKTable[K2, V2],
        joiner: Callable[[K, V, V2], R],
        *,
        key_selector: Callable[[K, V], K2 | None],
        value: Any = None,
        name: str | None = None,
    ) -> KStream[K, R]: ...

    @overload
    def join(
        self,
        other: GlobalKTable[K2, V2],
        joiner: Callable[[K, K2, V, V2], R],
        *,
        key_selector: Callable[[K, V], K2 | None],
        value: Any = None,
        name: str | None = None,
    ) -> KStream[K, R]: ...

    def join(
        self,
        other: KStream[K, Any] | KTable[K, Any] | GlobalKTable[Any, Any],
        joiner: Callable[..., Any],
        windows: JoinWindows | Joined | None = None,
        stream_joined: StreamJoined | None = None,
        value: Any = None,
        name: str | None = None,
        key_selector: Callable[[Any, Any], Any] | None = None,
        grace: Duration | None = None,
        joined: Joined | None = None,
    ) -> KStream[K, Any]:
        """Join each record with the record or row that the other side has for its key. Records without a match are left
        out.

        With another *stream*, a record matches every record of its key that is near in time; the result has the later
        timestamp. With a *table*, the record gets the row of its key: the present value, or from a versioned table the
        value that was valid at the record's timestamp (KIP-914). With a *global table*, the record gets the row of the
        key that ``key_selector`` returns. Penstock drops and counts records without a value, or without a key to look
        up.

        Args:
            other: the right side. A stream or table must have keys of the same type, and topics with the same number of
                partitions.
            joiner: a function of (left, right) or (key, left, right) that returns the new value. With a global table,
                it may also take the key that was looked up: (key, mapped key, left, right) (KIP-1340).
            windows: for streams, how far apart in time two records may be.
            stream_joined: for streams: names, types, and the stores that keep the records.
            value: the type of the results.
            name: the step's name.
            key_selector: for global tables, a function of (key, value) that returns the key to look up.
            grace: for versioned tables, how long records wait for late records of the table.
            joined: for tables: types for a repartition topic, a name, a grace period. You can also pass it after the
                joiner, as in Kafka Streams. For streams: ``Joined.retention`` only.

        >>> from penstock import JoinWindows
        >>> from penstock.testing import pipe
        >>> near = JoinWindows.of_time_difference_with_no_grace(5)
        >>> pipe(lambda stream: stream.join(stream, lambda left, right: [left, right], near),
        ...      [("a", 1, 0), ("a", 2, 5), ("a", 3, 11)])
        [('a', [1, 1]), ('a', [2, 1]), ('a', [1, 2]), ('a', [2, 2]), ('a', [3, 3])]

        >>> from penstock import StreamsBuilder
        >>> from penstock.testing import TopologyTestDriver
        >>> builder = StreamsBuilder()
        >>> prices = builder.table("prices", value=int)
        >>> builder.stream("orders", value=int).join(prices, lambda amount, price: amount * price).to("out")
        >>> driver = TopologyTestDriver(builder.build())
        >>> driver.pipe_input("prices", "tea", 3)
        >>> driver.pipe_input("orders", "tea", 5)
        >>> driver.pipe_input("orders", "milk", 1)
        >>> [(record.key, record.value) for record in driver.read_output("out")]
        [('tea', 15)]
        """
        options = TableOptions(key_selector, grace, joined)
        return self._join(nodes.INNER, other, joiner, windows, stream_joined, value, name, options)

    @overload
    def left_join(
        self,
        other: KStream[K, V2] | KTable[K, V2],
        joiner: Callable[[V, V2 | None], R],
        windows: JoinWindows | Joined | None = None,
        stream_joined: StreamJoined | None = None,
        value: Any = None,
        name: str | None = None,
        *,
        grace: Duration | None = None,
        joined: Joined | None = None,
    ) -> KStream[K, R]: ...

    @overload
    def left_join(
        self,
        other: KStream[K, V2] | KTable[K, V2],
        joiner: Callable[[K, V, V2 | None], R],
        windows: JoinWindows | Joined | None = None,
        stream_joined: StreamJoined | None = None,
        value: Any = None,
        name: str | None = None,
        *,
        grace: Duration | None = None,
        joined: Joined | None = None,
    ) -> KStream[K, R]: ...

    @overload
    def left_join(
        self,
        other: GlobalKTable[K2, V2],
        joiner: Callable[[V, V2 | None], R],
        *,
        key_selector: Callable[[K, V], K2 | None],
        value: Any = None,
        name: str | None = None,
    ) -> KStream[K, R]: ...

    @overload
    def left_join(
        self,
        other: GlobalKTable[K2, V2],
        joiner: Callable[[K, V, V2 | None], R],
        *,
        key_selector: Callable[[K, V], K2 | None],
        value: Any = None,
        name: str | None = None,
    ) -> KStream[K, R]: ...

    @overload
    def left_join(
        self,
        other: GlobalKTable[K2, V2],
        joiner: Callable[[K, K2 | None, V, V2 | None], R],
        *,
        key_selector: Callable[[K, V], K2 | None],
        value: Any = None,
        name: str | None = None,
    ) -> KStream[K, R]: ...

    def left_join(
        self,
        other: KStream[K, Any] | KTable[K, Any] | GlobalKTable[Any, Any],
        joiner: Callable[..., Any],
        windows: JoinWindows | Joined | None = None,
        stream_joined: StreamJoined | None = None,
        value: Any = None,
        name: str | None = None,
        key_selector: Callable[[Any, Any], Any] | None = None,
        grace: Duration | None = None,
        joined: Joined | None = None,
    ) -> KStream[K, Any]:
        """Join like :meth:`join`, but also keep records without a match: the joiner then gets None for the other side.

        With another stream, such a result comes when stream time has passed the window and the grace period, because no
        match can come after that.
        """
        options = TableOptions(key_selector, grace, joined)
        return self._join(nodes.LEFT, other, joiner, windows, stream_joined, value, name, options)

    @overload
    def outer_join(
        self,
        other: KStream[K, V2],
        joiner: Callable[[V | None, V2 | None], R],
        windows: JoinWindows,
        stream_joined: StreamJoined | None = None,
        value: Any = None,
        name: str | None = None,
        joined: Joined | None = None,
    ) -> KStream[K, R]: ...

    @overload
    def outer_join(
        self,
        other: KStream[K, V2],
        joiner: Callable[[K, V | None, V2 | None], R],
        windows: JoinWindows,
        stream_joined: StreamJoined | None = None,
        value: Any = None,
        name: str | None = None,
        joined: Joined | None = None,
    ) -> KStream[K, R]: ...

    def outer_join(
        self,
        other: KStream[K, Any],
        joiner: Callable[..., Any],
        windows: JoinWindows,
        stream_joined: StreamJoined | None = None,
        value: Any = None,
        name: str | None = None,
        joined: Joined | None = None,
    ) -> KStream[K, Any]:
        """Join like :meth:`join`, but also keep records of both streams without a match: the joiner gets None for the
        other side."""
        options = TableOptions(joined=joined)
        return self._join(nodes.OUTER, other, joiner, windows, stream_joined, value, name, options)

    def _join(
        self,
        kind: str,
        other: Any,
        joiner: Callable[..., Any],
        windows: Any,
        stream_joined: StreamJoined | None,
        value: Any,
        name: str | None,
        options: TableOptions,
    ) -> KStream[K, Any]:
        from penstock.dsl.joins import METHODS
        from penstock.dsl.kstream import KStream
        from penstock.dsl.ktable import KTable
        from penstock.dsl.stream_stream import join_streams
        from penstock.dsl.stream_table import join_global_table, join_table, no_windows

        this = cast("KStream[K, V]", self)
        if not isinstance(other, KStream | KTable | GlobalKTable):
            raise TopologyError(
                f"{METHODS[kind]} at {caller()} joins a stream with a stream, a table or a global table; got "
                f"{show(other)} of type {type(other).__name__}; {_readable(other)}"
            )
        options, windows = options.with_placed(windows, METHODS[kind])
        if isinstance(other, KTable | GlobalKTable):
            if kind == nodes.OUTER:
                raise TopologyError(
                    f"outer_join at {caller()} joins two streams; with a table use join or left_join, since a table "
                    "has no records that could wait for a partner"
                )
            no_windows(kind, windows, stream_joined)
            if isinstance(other, KTable):
                return this._of(join_table(kind, this._joinable, other._handle, joiner, value, name, options))
            table = Handle(self._graph, other._node, other._key, other._value)
            return this._of(join_global_table(kind, this._joinable, table, joiner, value, name, options))
        retention = options.retention_of_streams(METHODS[kind])
        sides = this._joinable, other._joinable
        return this._of(join_streams(kind, *sides, joiner, windows, stream_joined, value, name, retention))

    @property
    def _joinable(self) -> StreamHandle:
        given = self._graph, self._node, self._key, self._value, self._repartition_required
        return StreamHandle(*given, for_join=self._repartitioned_for_join)

    def _repartitioned_for_join(self, name: str | None, key: Serde, value: Serde) -> Node:
        """The step that a join reads: the stream's own, or the repartition topic that its joins share."""
        if not self._repartition_required:
            return self._node
        made = repartition_node(self._graph, self._node, name or self._node.name, key, value)
        if self._repartitioned is None or name is not None:
            self._repartitioned = self._graph.add(made)
        return self._repartitioned


def _readable(other: Any) -> str:
    """Return what to give instead of an object that is neither a stream nor a table."""
    if isinstance(other, str):
        return f"read the topic first, with builder.stream({other!r}) or builder.table({other!r})"
    if type(other).__name__.startswith(("KGrouped", "TimeWindowed", "SessionWindowed")):
        return "aggregate first, with count(), reduce(...) or aggregate(...), which returns a table"
    return "builder.stream(topic), builder.table(topic) and builder.global_table(topic) return them"
