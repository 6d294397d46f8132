"""``StreamsBuilder.source``: what is said of a source, checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

from penstock.dsl.consumed import Consumed
from penstock.dsl.formats import opened
from penstock.dsl.global_sources import GlobalSources
from penstock.dsl.graph import K, V
from penstock.dsl.kstream import KStream
from penstock.errors import TopologyError
from penstock.messages import show
from penstock.plan import names, nodes
from penstock.plan.dataframes import SourceFeed
from penstock.plan.defaults import DEFAULT_KEY, DEFAULT_VALUE
from penstock.plan.functions import caller
from penstock.plan.names import check_name
from penstock.plan.timestamps import Timestamp, timestamp_of
from penstock.serdes import of
from penstock.serdes.formats.base import Format
from penstock.values.durations import Duration, to_ms
from penstock.values.offset_reset import AutoOffsetReset

if TYPE_CHECKING:
    from penstock.sources import Source

MAX_AHEAD = 1_000_000
RETRY_FOR: Duration = "5 minutes"


class OwnSources(GlobalSources):
    """The sources of one's own, and what is of whole topics; users have a ``StreamsBuilder``."""

    @overload
    def source(
        self,
        source: Source,
        name: str,
        key: type[K],
        value: type[V],
        timestamp: Timestamp | None = None,
        timestamp_unit: str | None = None,
        *,
        partitions: int | None = None,
        max_ahead: int = MAX_AHEAD,
        retry_for: Duration = RETRY_FOR,
        keep: Duration | None = None,
    ) -> KStream[K, V]: ...

    @overload
    def source(
        self,
        source: Source,
        name: str,
        key: None = None,
        *,
        value: type[V],
        timestamp: Timestamp | None = None,
        timestamp_unit: str | None = None,
        partitions: int | None = None,
        max_ahead: int = MAX_AHEAD,
        retry_for: Duration = RETRY_FOR,
        keep: Duration | None = None,
    ) -> KStream[str, V]: ...

    @overload
    def source(
        self,
        source: Source,
        name: str,
        key: type[K],
        value: None = None,
        timestamp: Timestamp | None = None,
        timestamp_unit: str | None = None,
        *,
        partitions: int | None = None,
        max_ahead: int = MAX_AHEAD,
        retry_for: Duration = RETRY_FOR,
        keep: Duration | None = None,
        format: Format | None = None,
    ) -> KStream[K, Any]: ...

    @overload
    def source(
        self,
        source: Source,
        name: str,
        key: Any = None,
        value: Any = None,
        timestamp: Timestamp | None = None,
        timestamp_unit: str | None = None,
        *,
        partitions: int | None = None,
        max_ahead: int = MAX_AHEAD,
        retry_for: Duration = RETRY_FOR,
        keep: Duration | None = None,
        format: Format | None = None,
    ) -> KStream[Any, Any]: ...

    def source(
        self,
        source: Source,
        name: str,
        key: Any = None,
        value: Any = None,
        timestamp: Timestamp | None = None,
        timestamp_unit: str | None = None,
        *,
        partitions: int | None = None,
        max_ahead: int = MAX_AHEAD,
        retry_for: Duration = RETRY_FOR,
        keep: Duration | None = None,
        format: Format | None = None,
    ) -> KStream[Any, Any]:
        """Read a source outside of Penstock as a stream: files, a database or requests. Each record enters the program
        once.

        A thread of the program reads the source, and appends its records to an internal topic,
        ``<application id>-<name>-source``. The same append stores the offset in the source at which the next read
        begins (docs/sources.md).

        Args:
            source: one of ``penstock.sources``, or your own.
            name: names the topic and the progress. Keep it when you change the program.
            key: the type of the keys, as in ``stream``.
            value: the type of the values, as in ``stream``.
            timestamp: the time of a record, as in ``stream``; by default the time that the source gives, or that of
                its arrival.
            timestamp_unit: the unit of the numbers in the field ``timestamp``, as in ``stream``.
            partitions: the number of partitions of the topic. The default is 8, or the number of the topics with which
                it is joined.
            max_ahead: the source waits while more than this number of its records are unprocessed.
            retry_for: how long Penstock retries a failing source before the program ends.
            keep: how long records stay in the topic after the program has processed them; by default forever.
            format: the envelope of the values, in place of ``value``, as in ``stream``: ``debezium(Order)``,
                ``maxwell(Order)``, ``cloud_event(Order)`` or ``json_lines(Order)``.

        Raises:
            TopologyError: an argument cannot be meant.

        >>> from penstock import StreamsBuilder
        >>> from penstock.sources import FileSource
        >>> builder = StreamsBuilder()
        >>> orders = builder.source(FileSource("orders", key="customer"), "orders", key=str, value=dict)
        >>> orders.group_by_key().count("counts").to_stream().to("counts")
        """
        at = f"source at {caller()}"
        _check(at, source, partitions, max_ahead)
        for node in self._graph.declared:
            if isinstance(node.outside, SourceFeed) and node.outside.name == name:
                raise TopologyError(f"{at}: {name!r} is the name of the source at {node.where}; give one another name")
        feed = SourceFeed(
            name=check_name(name),
            partitions=partitions,
            max_ahead=max_ahead,
            retry_ms=to_ms(retry_for, "source: retry_for"),
            keep_ms=None if keep is None else to_ms(keep, "source: keep"),
            where=caller(),
            shown=str(getattr(source, "shown", type(source).__name__)),
            source=source,
        )
        read: Consumed[Any, Any] = Consumed(
            key=None if key is None else of(key, "key"),
            value=None if value is None else of(value, "value"),
            timestamp=timestamp,
            name=name,
            offset_reset=AutoOffsetReset.earliest(),  # whatever the settings say: what came in is to be read
            timestamp_unit=timestamp_unit,
        )
        if format is not None:
            return KStream._of(opened("source", self._graph, (name,), None, read, format, feed))
        return self._brought_in(read, feed)

    def _brought_in(self, read: Consumed[Any, Any], feed: SourceFeed) -> KStream[Any, Any]:
        """Add the source of records that are no envelopes."""
        node = nodes.StreamSource(
            name=self._graph.names.node(names.SOURCE, read.name),
            where=feed.where,
            topics=(feed.name,),
            key=read.key or DEFAULT_KEY,
            value=read.value or DEFAULT_VALUE,
            timestamp=timestamp_of(read.timestamp, read.value or DEFAULT_VALUE, read.timestamp_unit),
            offset_reset=read.offset_reset,
            outside=feed,
        )
        return KStream(self._graph, self._graph.add(node), node.key, node.value)


def _check(at: str, source: Any, partitions: Any, max_ahead: Any) -> None:
    if isinstance(source, type) or not callable(getattr(source, "open", None)) or hasattr(source, "write"):
        hint = f"; call it: {source.__name__}(...)" if isinstance(source, type) else ""
        raise TopologyError(
            f"{at}: a source has a method open(context), as penstock.sources.Source says; got {show(source)}{hint}"
        )
    if partitions is not None and (type(partitions) is not int or partitions < 1):
        raise TopologyError(f"{at}: partitions is a number from 1 on; got {show(partitions)}")
    if type(max_ahead) is not int or max_ahead < 1:
        raise TopologyError(f"{at}: max_ahead is a number of records from 1 on; got {show(max_ahead)}")
