"""Visits to a site: each session of clicks as one record when it is over, and clicks that come too late for theirs.

In: `clicks`, keyed by user. Out: `visits`, keyed by user, and `late-clicks`. Run it with `penstock run visits.py`.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from penstock import (
    FixedKeyProcessor,
    ProcessorContext,
    Record,
    SessionStore,
    SessionWindows,
    StreamsBuilder,
    Suppressed,
    Windowed,
)

GAP, GRACE = 30 * 60_000, 5 * 60_000
"""Milliseconds without a click that end a visit; how much later than others a click may come."""


@dataclass(frozen=True)
class Click:
    page: str
    at: int
    """In milliseconds since 1970."""


@dataclass(frozen=True)
class Visit:
    pages: int = 0
    begin: int = sys.maxsize
    end: int = -1
    first_page: str = ""
    last_page: str = ""


@dataclass(frozen=True)
class Summary:
    pages: int
    seconds: float
    first_page: str
    last_page: str


@dataclass(frozen=True)
class Marked:
    click: Click
    is_late: bool


class Lateness(FixedKeyProcessor[str, Click]):
    """Marks clicks of sessions that are over: the one that a click would make, or make longer."""

    def init(self, context: ProcessorContext) -> None:
        self.context = context
        self.sessions: SessionStore[str, Visit] = context.get_state_store("sessions")

    def process(self, record: Record) -> None:
        at = record.timestamp
        near = self.sessions.find_sessions(record.key, max(0, at - GAP), at + GAP)
        end = max([at, *(window.end for window, _ in near)])
        is_late = end < self.context.current_stream_time_ms - GAP - GRACE
        self.context.forward(record.with_value(Marked(record.value, is_late)))


def add(user: str, click: Click, visit: Visit) -> Visit:
    return join(user, visit, Visit(1, click.at, click.at, click.page, click.page))


def join(user: str, one: Visit, other: Visit) -> Visit:
    first = min(one, other, key=lambda visit: visit.begin)
    last = max(one, other, key=lambda visit: visit.end)
    return Visit(one.pages + other.pages, first.begin, last.end, first.first_page, last.last_page)


def told(window: Windowed[str], visit: Visit) -> tuple[str, Summary]:
    seconds = (visit.end - visit.begin) / 1000
    return window.key, Summary(visit.pages, seconds, visit.first_page, visit.last_page)


builder = StreamsBuilder()
clicks = builder.stream("clicks", key=str, value=Click, timestamp="at")
marked = clicks.process_values(Lateness, "sessions", value=Marked)
branches = marked.split("is-").branch(lambda user, click: click.is_late, "late").default_branch("fine")
branches["is-late"].map_values(lambda late: late.click, value=Click).to("late-clicks")
(
    branches["is-fine"]
    .map_values(lambda fine: fine.click, value=Click)
    .group_by_key()
    .windowed_by(SessionWindows.of_inactivity_gap_and_grace(GAP, GRACE))
    .aggregate(Visit, add, join, value=Visit, store="sessions")
    .suppress(Suppressed.until_window_closes())
    .to_stream()
    .map(told, key=str, value=Summary)
    .to("visits")
)
topology = builder.build()
