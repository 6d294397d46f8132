"""The jobs of the benchmark, as users would write them."""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow.compute as pc

from penstock import Materialized, StreamsBuilder, TimeWindows, Topology, columnar


class Event(msgspec.Struct, frozen=True):
    id: str
    amount: int


class Account(msgspec.Struct, frozen=True):
    region: str
    amount: int


class Total(msgspec.Struct, frozen=True):
    n: int = 0
    sum: int = 0


def passthrough(source: str, sink: str) -> Topology:
    """Topic to topic, nothing in between."""
    builder = StreamsBuilder()
    builder.stream(source, key=str, value=bytes).to(sink)
    return builder.build()


def w0(source: str, sink: str) -> Topology:
    """Parse, filter, project, write."""
    builder = StreamsBuilder()
    events = builder.stream(source, key=str, value=Event)
    events.filter(lambda key, event: event.amount > 20).to(sink)
    return builder.build()


def w1(source: str, sink: str) -> Topology:
    """Counts by key in windows of a minute with ten seconds of grace."""
    builder = StreamsBuilder()
    windows = TimeWindows.of_size_and_grace("60 s", "10 s")
    counts = builder.stream(source, key=str, value=bytes).group_by_key().windowed_by(windows).count("counts")
    counts.to_stream().map(window_as_json, key=str, value=str).to(sink)
    return builder.build()


@columnar
def window_as_json(key: Any, count: Any) -> tuple[Any, Any]:
    start, n = pc.cast(key.start, "string"), pc.cast(count, "string")
    return key.key, pc.binary_join_element_wise('{"w":', start, ',"n":', n, "}", "")


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


def w9(source: str, sink: str) -> Topology:
    """W1 with a retention that keeps every window, for restarts with much state."""
    builder = StreamsBuilder()
    windows = TimeWindows.of_size_and_grace("60 s", "10 s")
    kept = Materialized.as_("counts").with_retention("1 day")
    counts = builder.stream(source, key=str, value=bytes).group_by_key().windowed_by(windows).count(materialized=kept)
    counts.to_stream().map(window_as_json, key=str, value=str).to(sink)
    return builder.build()


WORKLOADS = {"PASS": passthrough, "W0": w0, "W1": w1, "W7": w7, "W9": w9}
