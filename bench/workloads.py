"""The jobs of the benchmark, as users would write them, and what it takes to measure each.

A new workload is one function that builds its topology and one entry in ``WORKLOADS``; what it has to put out goes
into ``expected.json``: for the smallest size what follows from the rules in ``tests/bench/test_workloads.py``, for
those up to five million records what Kafka Streams puts out. Sizes that would take it too long hold what Penstock put
out once, so that other code has to put out the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow.compute as pc

from bench.processors import w10, w11
from penstock import (
    Count,
    JoinWindows,
    Materialized,
    Mean,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
    columnar,
)


class Event(msgspec.Struct, frozen=True):
    id: str
    amount: int


class Slim(msgspec.Struct, frozen=True):
    id: str
    amount: int


class Account(msgspec.Struct, frozen=True):
    region: str
    amount: int


class User(msgspec.Struct, frozen=True):
    tier: int


class UserEvent(msgspec.Struct, frozen=True):
    id: str
    amount: int
    tier: int


class View(msgspec.Struct, frozen=True):
    id: str


class Click(msgspec.Struct, frozen=True):
    id: str
    amount: int


class ViewClick(msgspec.Struct, frozen=True):
    view: str
    click: str
    amount: int


class Order(msgspec.Struct, frozen=True):
    cust: str
    amount: int


class CustomerOrder(msgspec.Struct, frozen=True):
    cust: str
    amount: int
    tier: int


class Total(msgspec.Struct, frozen=True):
    n: int = 0
    sum: int = 0


class MeanOf(msgspec.Struct, frozen=True):
    mean: float
    n: int


def passthrough(source: str, sink: str) -> Topology:
    """Topic to topic, nothing in between."""
    builder = StreamsBuilder()
    builder.stream(source, key=str, value=bytes).to(sink)
    return builder.build()


def w0(source: str, sink: str) -> Topology:
    """Parse, filter, project, write."""
    builder = StreamsBuilder()
    events = builder.stream(source, key=str, value=Event)
    large = events.filter(lambda key, event: event.amount > 20)
    large.map_values(lambda event: Slim(event.id, event.amount), value=Slim).to(sink)
    return builder.build()


def w1(source: str, sink: str) -> Topology:
    """Counts by key in windows of a minute with ten seconds of grace."""
    return _window_counts(source, sink, "10 s")


def mean(source: str, sink: str) -> Topology:
    """The mean amount and the number of events by key and minute, by name."""
    return _of_windows(source, sink, lambda windows: windows.aggregate(mean=Mean("amount"), n=Count()))


def mean_by_functions(source: str, sink: str) -> Topology:
    """The same, with functions of each event."""

    def add(key: str, event: Event, total: Total) -> Total:
        return Total(total.n + 1, total.sum + event.amount)

    def of_total(total: Total) -> MeanOf:
        return MeanOf(total.sum / total.n, total.n)

    return _of_windows(
        source, sink, lambda windows: windows.aggregate(Total, add, value=Total).map_values(of_total, value=MeanOf)
    )


def _of_windows(source: str, sink: str, aggregate: Callable[[Any], Any]) -> Topology:
    """What an aggregation of minutes with ten seconds of grace gives, under the key and the minute."""
    builder = StreamsBuilder()
    windows = TimeWindows.of_size_and_grace("60 s", "10 s")
    found = aggregate(builder.stream(source, key=str, value=Event).group_by_key().windowed_by(windows))
    found.to_stream().select_key(key_and_minute, key=str).to(sink)
    return builder.build()


@columnar
def key_and_minute(key: Any, _: Any) -> Any:
    return pc.binary_join_element_wise(key.key, pc.cast(key.start, "string"), "@")


def w2(source: str, sink: str) -> Topology:
    """The same, but each key and window once, when it closes."""
    return _window_counts(source, sink, "10 s", final=True)


def _window_counts(source: str, sink: str, grace: str, final: bool = False) -> Topology:
    builder = StreamsBuilder()
    windows = TimeWindows.of_size_and_grace("60 s", grace)
    counts = builder.stream(source, key=str, value=bytes).group_by_key().windowed_by(windows).count("counts")
    if final:
        counts = counts.suppress(Suppressed.until_window_closes())
    counts.to_stream().map(window_as_json, key=str, value=str).to(sink)
    return builder.build()


@columnar
def window_as_json(key: Any, count: Any) -> tuple[Any, Any]:
    start, n = pc.cast(key.start, "string"), pc.cast(count, "string")
    return key.key, pc.binary_join_element_wise('{"w":', start, ',"n":', n, "}", "")


def w3(source: str, sink: str) -> Topology:
    """Counts of sessions with a gap of half a minute and ten seconds of grace; sessions that merge away get null."""
    builder = StreamsBuilder()
    sessions = SessionWindows.of_inactivity_gap_and_grace("30 s", "10 s")
    counts = builder.stream(source, key=str, value=bytes).group_by_key().windowed_by(sessions).count("sessions")
    counts.to_stream().map(session_as_json, key=str, value=str).to(sink)
    return builder.build()


@columnar
def session_as_json(key: Any, count: Any) -> tuple[Any, Any]:
    start, end = pc.cast(key.start, "string"), pc.cast(key.end, "string")
    n = pc.cast(count, "string").fill_null("null")
    return key.key, pc.binary_join_element_wise('{"s":', start, ',"e":', end, ',"n":', n, "}", "")


def sliding(source: str, sink: str) -> Topology:
    """Counts by key in sliding windows of ten seconds with ten seconds of grace: some seventeen updates a record."""
    builder = StreamsBuilder()
    windows = SlidingWindows.of_time_difference_and_grace("10 s", "10 s")
    counts = builder.stream(source, key=str, value=bytes).group_by_key().windowed_by(windows).count("counts")
    counts.to_stream().map(window_as_json, key=str, value=str).to(sink)
    return builder.build()


def w4(source: str, sink: str) -> Topology:
    """One event of each key and id in ten minutes; the id is a field of the value."""
    builder = StreamsBuilder()
    builder.stream(source, key=str, value=dict).deduplicate_by_key_value("id", "10 minutes").to(sink)
    return builder.build()


def w5(events: str, users: str, sink: str) -> Topology:
    """Events joined with what is known of their users when they are processed."""
    return _with_users(events, users, sink, Materialized.as_("users"))


def w5v(events: str, users: str, sink: str) -> Topology:
    """Events joined with what was known of their users at the events' times."""
    return _with_users(events, users, sink, Materialized.as_versioned("users", "10 minutes"))


def w5vg(events: str, users: str, sink: str) -> Topology:
    """The same, and events wait ten seconds for what is late about their users."""
    return _with_users(events, users, sink, Materialized.as_versioned("users", "10 minutes"), "10 s")


def _with_users(events: str, users: str, sink: str, kept: Materialized, grace: str | None = None) -> Topology:
    builder = StreamsBuilder()
    table = builder.table(users, key=str, value=User, materialized=kept)
    joined = builder.stream(events, key=str, value=Event).join(
        table, lambda event, user: UserEvent(event.id, event.amount, user.tier), value=UserEvent, grace=grace
    )
    joined.to(sink)
    return builder.build()


def w6(orders: str, customers: str, sink: str) -> Topology:
    """A table of orders joined with the table of the customers that they name."""
    builder = StreamsBuilder()
    joined = builder.table(orders, key=str, value=Order, store="orders").join(
        builder.table(customers, key=str, value=User, store="customers"),
        lambda order, customer: CustomerOrder(order.cust, order.amount, customer.tier),
        foreign_key=lambda order: order.cust,
        value=CustomerOrder,
        store="joined",
    )
    joined.to_stream().to(sink)
    return builder.build()


def w7(source: str, sink: str) -> Topology:
    """A table grouped anew by region, with the number and the sum of its rows."""
    builder = StreamsBuilder()
    accounts = builder.table(source, key=str, value=Account, store="accounts")
    regions = accounts.group_by(lambda key, account: (account.region, account), key=str, value=Account)
    totals = regions.aggregate(
        Total,
        lambda region, account, total: Total(total.n + 1, total.sum + account.amount),
        lambda region, account, total: Total(total.n - 1, total.sum - account.amount),
        value=Total,
        store="totals",
    )
    totals.to_stream().to(sink)
    return builder.build()


def join(views: str, clicks: str, sink: str) -> Topology:
    """Views joined with the clicks of the same user within ten seconds before and after."""
    builder = StreamsBuilder()
    joined = builder.stream(views, key=str, value=View).join(
        builder.stream(clicks, key=str, value=Click),
        lambda view, click: ViewClick(view.id, click.id, click.amount),
        JoinWindows.of_time_difference_and_grace("10 s", "10 s"),
        value=ViewClick,
    )
    joined.to(sink)
    return builder.build()


def w9(source: str, sink: str) -> Topology:
    """W1 with windows that stay open for a day, for restarts with much state."""
    return _window_counts(source, sink, "1 day")


Inputs = Mapping[str, int]
"""How many records of which sets of ``bench.data`` a run reads."""


@dataclass(frozen=True)
class Workload:
    """A job whose marginal cost is measured.

    Attributes:
        name: what the command line, ``expected.json`` and the peers' harness call it.
        about: what it does, in a few words.
        topology: builds it, from the names of its input topics and its output topic.
        few: what the smaller run reads, of an engine whose ``scale`` is 1.
        many: what the larger run reads.
        result: the fields of an output value that belong to a result's key, and last the one that is summed up;
            nothing for jobs whose output is no table.
        cache: put out the last update per key and commit, instead of every update.
        at_least: how many times less than Kafka Streams it has to cost; 0 where nothing is promised.
        is_exact: whether the number of results is the same in every run; otherwise only what they come to in the end.
        beside: another workload that is measured beside it.
        at_most: how many times what that one costs it may cost.
        grows: whether state grows with the input, so that all engines are run over as many records: what is more than
            memory may hold costs more.
        alone: whether Penstock alone is run, over as many records as it says.
        own_peer: whether the same job in Kafka Streams is in ``bench/peers``, as the peers' harness has none.
    """

    name: str
    about: str
    topology: Callable[..., Topology]
    few: Inputs
    many: Inputs
    result: tuple[str, ...] = ()
    cache: bool = False
    at_least: float = 0
    is_exact: bool = True
    beside: Workload | None = None
    at_most: float = 0
    grows: bool = False
    alone: bool = False
    own_peer: bool = False

    @property
    def title(self) -> str:
        return f"{self.name}: {self.about}"

    @property
    def sizes(self) -> tuple[Inputs, Inputs]:
        """What both runs read."""
        return self.few, self.many


_EVENTS = {"events": 1_000_000}, {"events": 5_000_000}
_FEWER_EVENTS = {"events": 100_000}, {"events": 500_000}
_ACCOUNTS = {"accounts": 500_000}, {"accounts": 2_500_000}
_USERS = {"events": 1_000_000, "table": 100_000}, {"events": 5_000_000, "table": 500_000}
_ORDERS = {"orders": 100_000, "customers": 20_000}, {"orders": 1_000_000, "customers": 200_000}
_MORE_ORDERS = {"orders": 500_000, "customers": 100_000}, {"orders": 5_000_000, "customers": 1_000_000}
_VISITS = {"views": 200_000, "clicks": 200_000}, {"views": 1_000_000, "clicks": 1_000_000}

_W5 = Workload("W5", "stream-table join", w5, *_USERS, result=("id", "tier"), at_least=7)

_MEAN_BY_FUNCTIONS = Workload(
    "MEANF", "mean of a field by key and minute, with functions", mean_by_functions, *_EVENTS, ("n",), alone=True
)

WORKLOADS = (
    Workload("W0", "filter and project", w0, *_EVENTS),
    Workload("W1", "windowed count, every update", w1, *_EVENTS, result=("w", "n"), at_least=7),
    Workload("W1", "windowed count, last per commit", w1, *_EVENTS, result=("w", "n"), cache=True, at_least=10),
    Workload("W2", "windowed count, final results", w2, *_EVENTS, result=("w", "n"), at_least=7),
    Workload("W3", "session count, every update", w3, *_EVENTS, result=("s", "e", "n"), at_least=7),
    Workload("SLIDE", "sliding windows, every update", sliding, *_FEWER_EVENTS, result=("w", "n"), own_peer=True),
    Workload("W4", "deduplication by id", w4, *_EVENTS, at_least=7),
    _W5,
    Workload("W5v", "stream-table join, versioned", w5v, *_USERS, ("id", "tier"), at_least=7, beside=_W5, at_most=1.5),
    Workload("W5vg", "stream-table join, versioned with grace", w5vg, *_USERS, ("id", "tier")),
    Workload("W6", "foreign-key join", w6, *_ORDERS, result=("amount",), at_least=7, is_exact=False, grows=True),
    Workload(
        *("W6", "foreign-key join with more state than memory may hold", w6, *_MORE_ORDERS, ("amount",)),
        is_exact=False,
        alone=True,
    ),
    Workload("JOIN", "stream-stream join", join, *_VISITS, result=("view", "click", "amount"), own_peer=True),
    Workload("W10", "processor with a count for each key", w10, *_EVENTS, ("n",), at_least=3, own_peer=True),
    Workload(
        "W11", "processor with windows and punctuations", w11, *_EVENTS, ("w", "n"), False, 3, False, own_peer=True
    ),
    Workload("W7", "table aggregate", w7, *_ACCOUNTS, result=("sum",), at_least=7),
    Workload(
        *("MEAN", "mean of a field by key and minute, by name", mean, *_EVENTS, ("n",)),
        at_least=10,
        beside=_MEAN_BY_FUNCTIONS,
        at_most=0.5,
        own_peer=True,
    ),
    _MEAN_BY_FUNCTIONS,
)

TOPOLOGIES = {workload.name: workload.topology for workload in WORKLOADS} | {"PASS": passthrough, "W9": w9}
