"""Figures in Spark's metrics: accumulators that every sink of the driver shows, such as Prometheus and JMX."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

from penstock.engine.spark import private

_registered: WeakKeyDictionary[Any, dict[str, Gauge]] = WeakKeyDictionary()
"""By context. Spark keeps what is registered until the context ends, so the next start of a program uses it."""


class Gauge:
    """A figure in Spark's metrics."""

    def __init__(self, accumulator: Any):
        self._accumulator = accumulator
        self._value = 0

    def set(self, value: int) -> None:
        if value != self._value:
            self._accumulator.add(value - self._value)
            self._value = value


def show(context: Any, application_id: str, figures: Mapping[str, int]) -> None:
    """Show figures of an application in Spark's metrics."""
    there = _registered.setdefault(context, {})
    named = {f"penstock.{application_id}.{name}": figure for name, figure in figures.items()}
    if new := [name for name in named if name not in there]:
        there |= {name: Gauge(one) for name, one in private.accumulators_in_metrics(context, new).items()}
    for name, figure in named.items():
        there[name].set(figure)
