"""The windows or sessions of one key over time: which records came, into which windows, what was late and why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from html import escape
from typing import Any

from penstock.values.times import moment

Window = tuple[int, int]
"""Its start and its end."""

_LEFT, _WIDTH, _ROW = 12, 720, 30


@dataclass(frozen=True)
class Came:
    """A record of the key, as it reached the step."""

    timestamp: int
    value: Any
    stream_time: int
    """That of the step, this record included; in a cogroup that of the record's stream."""
    windows: tuple[Window, ...]
    """The windows whose results it changed. Beside those that took it, that may be a sliding window which begins
    behind it and has later records."""
    closed: tuple[Window, ...] = ()
    """The windows that it belongs to and that were closed."""
    is_duplicate: bool = False
    """Whether a deduplication left it out."""
    goes_on: bool = False
    """Whether a deduplication sent it on."""
    cause: int = 0
    """How many records ``pipe_input`` had taken when it came: the number of the one that it comes from."""

    @property
    def is_late(self) -> bool:
        """Whether no window took it, because all of them were closed."""
        return bool(self.closed) and not self.windows


@dataclass(frozen=True)
class Timeline:
    """The history of one key's records in one step; prints as text, and is drawn in notebooks.

    >>> from penstock import StreamsBuilder, TimeWindows
    >>> from penstock.testing import TopologyTestDriver
    >>> builder = StreamsBuilder()
    >>> minutes = TimeWindows.of_size_and_grace("1 minute", "10 seconds")
    >>> builder.stream("in", value=str).group_by_key().windowed_by(minutes).count(name="minutes").to_stream().to("out")
    >>> driver = TopologyTestDriver(builder.build())
    >>> driver.pipe_record_list("in", [("a", "x", 1_000), ("b", "y", 70_000), ("a", "z", 2_000)])
    >>> [minutes] = driver.timeline("a")
    >>> print(minutes)
    minutes, key 'a': 2 records, 1 of them late; stream time is 1970-01-01T00:01:10Z
      1970-01-01T00:00:01Z  'x'  into 1970-01-01T00:00:00Z – 1970-01-01T00:01:00Z
      1970-01-01T00:00:02Z  'z'  late: stream time was 1970-01-01T00:01:10Z, and its window 1970-01-01T00:00:00Z – \
1970-01-01T00:01:00Z closed at 1970-01-01T00:01:10Z
    """

    node: str
    key: Any
    grace_ms: int
    stream_time: int
    records: tuple[Came, ...]
    spans: tuple[Window, ...] = field(default=())
    """All windows of the key, sessions as they ended."""

    @property
    def late(self) -> tuple[Came, ...]:
        """The records that no window took."""
        return tuple(one for one in self.records if one.is_late)

    def __str__(self) -> str:
        late = f", {len(self.late)} of them late" if self.late else ""
        count = "1 record" if len(self.records) == 1 else f"{len(self.records):,} records"
        head = f"{self.node}, key {self.key!r}: {count}{late}; stream time is {moment(self.stream_time)}"
        return "\n".join(
            [head, *(f"  {moment(one.timestamp)}  {one.value!r}  {self.told(one)}" for one in self.records)]
        )

    def told(self, one: Came) -> str:
        """Describe a record's result."""
        if one.goes_on or one.is_duplicate:
            time = moment(one.stream_time)
            return f"left out: a duplicate; stream time was {time}" if one.is_duplicate else "goes on"
        if not one.is_late:
            taking = [window for window in one.windows if window[0] <= one.timestamp <= window[1]]
            closed = f"; {', '.join(map(_window, one.closed))} was closed" if one.closed else ""
            behind = [window for window in one.windows if window not in taking]
            begins = f"; begins {', '.join(map(_window, behind))}, which has later records" if behind else ""
            into = f"into {', '.join(map(_window, taking))}" if taking else "left out: no window takes it"
            return f"{into}{begins}{closed}"
        end = max(end for _, end in one.closed)
        which = "its window" if len(one.closed) == 1 else "the last of its windows"
        window = _window(max(one.closed, key=lambda window: window[1]))
        closed = f"{which} {window} closed at {moment(end + self.grace_ms)}"
        return f"late: stream time was {moment(one.stream_time)}, and {closed}"

    def to_svg(self) -> str:
        """A picture: a bar for each window, its grace period behind it, a dot for each record; late ones in red."""
        return _svg(self)

    def _repr_html_(self) -> str:
        return f"<div><b>{escape(str(self).splitlines()[0])}</b></div>{self.to_svg()}"


def _window(window: Window) -> str:
    return f"{moment(window[0])} – {moment(window[1])}"


def _svg(line: Timeline) -> str:
    spans = line.spans or tuple(window for one in line.records for window in one.closed)
    times = [one.timestamp for one in line.records] + [time for span in spans for time in span] + [line.stream_time]
    low, high = min(times), max([*times, *(end + line.grace_ms for _, end in spans if end < 1 << 60)])
    high = min(high, max(line.stream_time, *(one.timestamp for one in line.records), low + 1) * 2) or 1

    def x(time: int) -> float:
        return _LEFT + _WIDTH * (min(max(time, low), high) - low) / max(high - low, 1)

    pieces = [_span(number, span, line.grace_ms, x) for number, span in enumerate(spans)]
    height = _ROW * (len(spans) + 2) + 10
    now = x(line.stream_time)
    pieces.append(f'<path d="M{now:.1f} 4V{height - 22}" stroke="currentColor" stroke-dasharray="3 4" opacity=".6"/>')
    side, at = ("end", now - 6) if now > _WIDTH / 2 else ("start", now + 6)
    words = f"stream time {moment(line.stream_time)}"
    pieces.append(f'<text x="{at:.1f}" y="{height - 22}" text-anchor="{side}" opacity=".7">{words}</text>')
    pieces += [_dot(one, line, x, height) for one in line.records]
    for time, anchor in ((low, "start"), (high, "end")):
        text = f'<text x="{x(time):.1f}" y="{height - 4}" text-anchor="{anchor}" opacity=".7">{moment(time)}</text>'
        pieces.append(text)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH + 2 * _LEFT} {height}" '
        f'width="{_WIDTH + 2 * _LEFT}" style="max-width:100%;height:auto" font-family="system-ui,sans-serif" '
        f'font-size="11" fill="currentColor">{"".join(pieces)}</svg>'
    )


def _span(number: int, span: Window, grace: int, x: Callable[[int], float]) -> str:
    y, left, right, closed = 6 + number * _ROW, x(span[0]), x(span[1]), x(span[1] + grace)
    return (
        f"<g><title>{_window(span)}, closed at {moment(span[1] + grace)}</title>"
        f'<rect x="{left:.1f}" y="{y}" width="{max(right - left, 3):.1f}" height="20" rx="5" fill="#1a9c8d" '
        f'fill-opacity=".25" stroke="#1a9c8d"/>'
        f'<rect x="{right:.1f}" y="{y + 6}" width="{max(closed - right, 0):.1f}" height="8" fill="#1a9c8d" '
        f'fill-opacity=".14"/></g>'
    )


def _dot(one: Came, line: Timeline, x: Callable[[int], float], height: int) -> str:
    row = next(
        (number for number, span in enumerate(line.spans) if span[0] <= one.timestamp <= span[1]), len(line.spans)
    )
    y = height - 40 if one.is_late else 16 + row * _ROW
    colour = "#d3382c" if one.is_late else "#1a9c8d"
    title = escape(f"{moment(one.timestamp)} {one.value!r} {line.told(one)}")
    late = f'<text x="{x(one.timestamp) + 9:.1f}" y="{y + 4}" fill="{colour}">late</text>' if one.is_late else ""
    return f'<circle cx="{x(one.timestamp):.1f}" cy="{y}" r="5" fill="{colour}"><title>{title}</title></circle>{late}'
