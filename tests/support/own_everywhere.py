"""A topology with window, session and versioned stores that users bring, wherever Penstock's may stand."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from penstock import (
    EmitStrategy,
    JoinWindows,
    Materialized,
    SessionWindows,
    SlidingWindows,
    StreamJoined,
    StreamsBuilder,
    TimeWindows,
    Topology,
)
from support.own_timed_stores import TimedSupplier

Rows = dict[tuple[bytes, int, int], bytes]
TOPICS = ("in", "prices", "others")
SHAPES = {"windows": "window", "final": "window", "sliding": "window", "sessions": "session", "prices": "versions",
          "dearest": "bytes", "left": "duplicates", "right": "duplicates"}  # fmt: skip
"""Each store of the topology, and what it is."""


def everywhere(medium: str | None) -> tuple[Topology, dict[str, TimedSupplier]]:
    """Steps of every kind, with stores of users or with Penstock's."""
    made: dict[str, TimedSupplier] = {}

    def own(name: str, **facts: Any) -> Any:
        made[name] = TimedSupplier(medium or "memory", SHAPES[name], name, **facts)
        return made[name]

    def kept(name: str, **facts: Any) -> Materialized:
        found = Materialized.as_(own(name, **facts))
        if medium is not None:
            return found.with_caching_disabled()
        if found.history_retention_ms is not None:
            return Materialized.as_versioned(name, found.history_retention_ms)
        return Materialized.as_(name).with_retention(found.retention_ms).with_caching_disabled()

    builder = StreamsBuilder()
    words = builder.stream("in", str, str)
    windows = TimeWindows.of_size_and_grace("10 ms", "20 ms").advance_by("5 ms")
    words.group_by_key().windowed_by(windows).reduce(
        lambda a, b: a + b, materialized=kept("windows", retention=40)
    ).to_stream().to("windows-out")
    words.group_by_key().windowed_by(windows).emit_strategy(EmitStrategy.on_window_close()).count(
        materialized=kept("final", retention=40)
    ).to_stream().to("final-out")
    sliding = SlidingWindows.of_time_difference_and_grace("10 ms", "20 ms")
    words.group_by_key().windowed_by(sliding).count(materialized=kept("sliding", retention=60)).to_stream().to(
        "sliding-out"
    )
    gap = SessionWindows.of_inactivity_gap_and_grace("4 ms", "20 ms")
    words.group_by_key().windowed_by(gap).count(materialized=kept("sessions", retention=60)).to_stream().to(
        "sessions-out"
    )
    prices = builder.table("prices", str, str, materialized=kept("prices", retention=50))
    words.join(prices, lambda a, b: f"{a}-{b}", value=str).to("joined-out")
    prices.filter(lambda k, v: v != "a", materialized=kept("dearest", retention=50)).to_stream().to("dearest-out")
    others = builder.stream("others", str, str)
    joined = StreamJoined().with_name("join")
    if medium is not None:
        joined = joined.with_this_store_supplier(own("left", retention=16, size=8))
        joined = joined.with_other_store_supplier(own("right", retention=16, size=8))
    within = JoinWindows.of_time_difference_and_grace("4 ms", "8 ms")
    words.outer_join(others, lambda a, b: f"{a}+{b}", within, joined, value=str).to("met-out")
    return builder.build(), made


def records(count: int = 200) -> Iterator[tuple[str, str, str | None, int]]:
    """Topic, key, value and time of some records, a few of which are late."""
    dice = random.Random(5)
    for time in range(count):
        topic = dice.choice(["in", "in", "prices", "others"])
        value = None if topic == "prices" and dice.random() < 0.3 else dice.choice("abcd")
        yield topic, dice.choice("xyz"), value, max(time - dice.randrange(12) * dice.randrange(3), 0)


def shown_by(made: dict[str, TimedSupplier]) -> dict[str, Rows]:
    """What the users' stores have, without deletions of what is deleted already."""
    return without_repeated_deletions({name: supplier.made[-1].shown() for name, supplier in made.items()})


def without_repeated_deletions(found: dict[str, Rows]) -> dict[str, Rows]:
    """The rows of stores, by name, without deletions of what is deleted already."""
    for name in ("prices", "dearest"):
        is_there: dict[bytes, int] = {}
        for key, time, kind in sorted(found[name]):
            if not kind and not is_there.get(key):
                del found[name][key, time, kind]
            is_there[key] = kind
    return found
