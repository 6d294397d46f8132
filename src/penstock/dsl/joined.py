"""How a stream is joined with a table, and a table with another one by a foreign key; and a stream with a stream, as
before Kafka Streams had ``StreamJoined``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.errors import TopologyError
from penstock.plan.functions import caller
from penstock.plan.names import check_name, check_name_if_given
from penstock.plan.options import Options, in_place_of, option, said_once, types_given
from penstock.plan.sinks import Partitioner, partitioner_of
from penstock.serdes import Serde, of
from penstock.values.durations import Duration, to_ms


@dataclass(frozen=True)
class Joined(Options):
    """The options of a join of a stream with a table.

    >>> Joined.with_name("enrich").with_grace_period("10 seconds").grace_period_ms
    10000
    """

    key: Serde | None = None
    value: Serde | None = None
    name: str | None = None
    grace_period_ms: int | None = field(default=None, metadata={"keyword": "grace"})
    retention_ms: int | None = field(default=None, repr=False)
    other_value: Serde | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_name_if_given(self.name)

    @option
    def as_(self, name: str) -> Joined:
        """With a name for the step, and for a repartition topic in front of it."""
        return self._but(name=check_name(name))

    @option
    def with_(self, key: Any = None, value: Any = None, other_value: Any = None) -> Joined:
        """With these types of the stream's keys and values, for a repartition topic in front of the join. The type of
        the table's values may follow, as in Kafka Streams; it must be the one that the table has."""
        return self._but(**types_given(key=key, value=value, other_value=other_value))

    @option
    def with_key_serde(self, key: Any) -> Joined:
        """With this type of the stream's keys."""
        return self._but(key=of(key, "key"))

    @option
    def with_value_serde(self, value: Any) -> Joined:
        """With this type of the stream's values."""
        return self._but(value=of(value, "value"))

    @option
    def with_name(self, name: str) -> Joined:
        """With a name for the step, and for a repartition topic in front of it."""
        return self._but(name=check_name(name))

    @option
    def with_grace_period(self, grace_period: Duration) -> Joined:
        """Hold stream records back until the stream's time has passed theirs by the grace period, so that table
        records that are late by as much still count. The table must be versioned."""
        return self._but(grace_period_ms=to_ms(grace_period, "the grace period"))

    @option
    def retention(self, retention: Duration) -> Joined:
        """Keep the records of two streams for so long, as KIP-328 has it in place of ``JoinWindows.until``.

        It must not be shorter than the windows and their grace period. Windows without a grace period then have one
        that lasts as long as the records are kept. A join with a table keeps no windows, and refuses this.

        >>> from penstock import JoinWindows, StreamsBuilder
        >>> builder = StreamsBuilder()
        >>> views, clicks = builder.stream("views", value=int), builder.stream("clicks", value=int)
        >>> near = JoinWindows.of_time_difference_and_grace("5 minutes", "1 minute")
        >>> views.join(clicks, lambda view, click: view + click, near, joined=Joined.retention("1 hour")).to("both")
        """
        return self._but(retention_ms=to_ms(retention, "the retention"))


@dataclass(frozen=True)
class TableJoined(Options):
    """The options of a join of two tables by a foreign key: their partitioners, and a name (KIP-775).

    >>> def by_country(topic, key, value, partitions):
    ...     return int(key.split("-")[0]) % partitions
    >>> TableJoined.as_("with-cities").with_partitioner(by_country).name
    'with-cities'
    """

    partitioner: Partitioner | None = None
    other_partitioner: Partitioner | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        check_name_if_given(self.name)
        partitioner_of(self.partitioner, "TableJoined")
        partitioner_of(self.other_partitioner, "TableJoined", "other_partitioner")

    @option
    def as_(self, name: str) -> TableJoined:
        """With a name, from which those of the steps and the internal topics are made."""
        return self._but(name=check_name(name))

    @option
    def with_(
        self, partitioner: Partitioner | None = None, other_partitioner: Partitioner | None = None
    ) -> TableJoined:
        """With functions that say where this table's and the other table's rows are; see ``KTable.join``."""
        given = {"partitioner": partitioner, "other_partitioner": other_partitioner}
        return self._but(**{name: function for name, function in given.items() if function is not None})

    @option
    def with_partitioner(self, partitioner: Partitioner) -> TableJoined:
        """With a function that says where this table's rows are."""
        return self._but(partitioner=partitioner)

    @option
    def with_other_partitioner(self, other_partitioner: Partitioner) -> TableJoined:
        """With a function that says where the other table's rows are."""
        return self._but(other_partitioner=other_partitioner)

    @option
    def with_name(self, name: str) -> TableJoined:
        """With a name, from which those of the steps and the internal topics are made."""
        return self._but(name=check_name(name))


@dataclass(frozen=True)
class TableOptions:
    """Options of a stream's join that apply if the other side is a table."""

    key_selector: Callable[[Any, Any], Any] | None = None
    grace: Duration | None = None
    joined: Joined | None = None

    def with_placed(self, windows: Any, method: str) -> tuple[TableOptions, Any]:
        """These options with a ``Joined`` that was given after the joiner, where Kafka Streams has it, and the argument
        that is left otherwise."""
        joined, windows = in_place_of(Joined, windows, self.joined, method, "joined")
        return replace(self, joined=joined), windows

    def retention_of_streams(self, method: str) -> int | None:
        """How long a join with another stream keeps records, of all options the one that streams have, too.

        Raises:
            TopologyError: another option is given.
        """
        joined = self.joined if isinstance(self.joined, Joined) else None
        retention = None if joined is None else joined.retention_ms
        given = [name for name in ("key_selector", "grace") if getattr(self, name) is not None]
        if self.joined is not None and joined != Joined(retention_ms=retention or 0):
            given.append("joined")
        if given:
            rest = "; of Joined they have retention(...) alone" if given[0] == "joined" else ""
            raise TopologyError(
                f"{method} at {caller()}: {given[0]}= is for tables, but the other side is a stream; for streams use "
                f"windows= and stream_joined={rest}"
            )
        return retention

    def as_joined(self, method: str, name: str | None) -> Joined:
        """Combine the name, the types and the grace period.

        Raises:
            TopologyError: a retention is given, which only a join of two streams has.
        """
        grace = None if self.grace is None else to_ms(self.grace, "the grace period")
        joined = said_once(method, "joined", self.joined, Joined(name=name, grace_period_ms=grace))
        if joined.retention_ms is not None:
            raise TopologyError(
                f"{method} at {caller()}: Joined.retention({joined.retention_ms}) is for joins of two streams, whose "
                "records are kept in windows; a table keeps its rows, so leave it out"
            )
        return joined
