"""How the calls of an async function are made: how many at once, how long each may take, how often it is repeated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.errors import ConfigError, TopologyError
from penstock.messages import show
from penstock.plan.functions import caller, check_flag
from penstock.values.durations import Duration, to_ms


@dataclass(frozen=True)
class Awaiting:
    """The calls of one step."""

    capacity: int
    """How many run side by side."""
    timeout_ms: int | None
    """How long one may take; None for any time."""
    retries: int
    """How often a call that failed is made again."""
    ordered: bool
    """Whether the results must have the order of the stream."""
    batch: int | None
    """How many records one call gets; None for one record, not in a list."""


def awaiting(
    method: str, capacity: int, timeout: Duration | None, retries: int, ordered: bool, batch: int | None
) -> Awaiting:
    """Check the arguments of a step that awaits.

    Raises:
        TopologyError: an argument is out of range.
    """
    _check(method, "capacity", capacity, 1)
    _check(method, "retries", retries, 0)
    if batch is not None:
        _check(method, "batch", batch, 1)
    check_flag(ordered, f"ordered of {method}")
    return Awaiting(capacity, None if timeout is None else _timeout(method, timeout), retries, ordered, batch)


def _check(method: str, what: str, given: Any, least: int) -> None:
    if type(given) is not int or given < least:
        raise TopologyError(f"{what} of {method} at {caller()} is a whole number from {least} on; got {show(given)}")


def _timeout(method: str, given: Duration) -> int:
    try:
        found = to_ms(given, f"timeout of {method} at {caller()}")
    except ConfigError as error:
        raise TopologyError(str(error)) from None
    if not found:
        raise TopologyError(
            f"timeout of {method} at {caller()} is longer than 0; leave it out to wait until a call ends"
        )
    return found
