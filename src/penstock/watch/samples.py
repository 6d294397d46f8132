"""Figures over time: rate, lag, latency and state, in two series of bounded length."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

SPANS = {"minutes": (2_000, 300), "day": (300_000, 288)}
"""By series: the time between its points in ms, and how many points there are: ten minutes, and a day."""


@dataclass(slots=True)
class Point:
    """The figures of a stretch of time."""

    at: int
    """Its beginning, in ms of the wall clock."""
    rate: float
    """Records read a second, on average."""
    lag: int | None
    """The most records that waited; None where the topics are not known."""
    latency: float | None
    """From a record's timestamp until its result was written, on average, in ms; None if nothing was written."""
    state: int
    """The bytes of all stores at the end."""
    looks: int = 1
    """How many looks the point has."""


class Samples:
    """The series of an application, as one observer has seen them.

    >>> samples = Samples()
    >>> samples.add(10_000, 5.0, 3, None, 100)
    >>> samples.add(11_000, 7.0, 1, 20.0, 120)
    >>> samples.series("minutes")["rate"], samples.series("minutes")["lag"], samples.series("minutes")["state"]
    ([6.0], [3], [120])
    """

    def __init__(self) -> None:
        self._points: dict[str, deque[Point]] = {name: deque(maxlen=most) for name, (_, most) in SPANS.items()}

    def add(self, now: int, rate: float, lag: int | None, latency: float | None, state: int) -> None:
        """Take the figures of a moment."""
        for name, (step, _) in SPANS.items():
            points, at = self._points[name], now - now % step
            if points and points[-1].at >= at:  # also when the wall clock was set back
                _add_to(points[-1], rate, lag, latency, state)
            else:
                points.append(Point(at, rate, lag, latency, state))

    def series(self, name: str) -> dict[str, Any]:
        """One series as columns, the oldest point first."""
        points = list(self._points[name])
        columns = {
            "at": [one.at for one in points],
            "rate": [round(one.rate, 2) for one in points],
            "lag": [one.lag for one in points],
            "latency": [None if one.latency is None else round(one.latency, 1) for one in points],
            "state": [one.state for one in points],
        }
        step, most = SPANS[name]
        return {"step": step, "points": most, **columns}


def _add_to(point: Point, rate: float, lag: int | None, latency: float | None, state: int) -> None:
    point.rate += (rate - point.rate) / (point.looks + 1)
    if lag is not None:
        point.lag = max(lag, point.lag or 0)
    if latency is not None:
        before = latency if point.latency is None else point.latency
        point.latency = before + (latency - before) / (point.looks + 1)
    point.state = state
    point.looks += 1
