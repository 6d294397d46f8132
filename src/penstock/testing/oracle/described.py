"""The stores that a case describes for a table, and those of the sides of its joins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock import Stores, StreamJoined
from penstock.testing.oracle.functions import Spec

DESCRIBED: dict[str, Callable[[Spec], Any]] = {
    "versioned": lambda given: Stores.persistent_versioned_key_value_store(
        given["store"], given["history_retention_ms"], given.get("segment_interval_ms")
    ),
    "with_headers": lambda given: Stores.persistent_timestamped_key_value_store_with_headers(given["store"]),
    "timestamped": lambda given: Stores.persistent_timestamped_key_value_store(given["store"]),
}
"""By the kind of a store: its supplier. Tests add the kinds of users' own stores, whose names begin with ``own_``."""

_SIDES = {
    "join": ("this-join", "other-join"),
    "left_join": ("this-join", "outer-other-join"),
    "outer_join": ("outer-this-join", "outer-other-join"),
}


def sides_of(join: Spec) -> list[str]:
    """Return the names of the stores of both sides of a named join of streams."""
    return [f"{join['name']}-{side}-store" for side in _SIDES[join["op"]]]


def sides_joined(join: Spec) -> StreamJoined:
    """Return the options of a join of streams: the names and the kind of the stores of its sides."""
    name, kind = join.get("name"), join.get("kind", "persistent")
    if kind not in DESCRIBED:
        return StreamJoined(name, name, kind=kind)
    this, other = (DESCRIBED[kind]({**join, "store": f"{name}-{side}"}) for side in ("this", "other"))
    return StreamJoined(name, name).with_this_store_supplier(this).with_other_store_supplier(other)
