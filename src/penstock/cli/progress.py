"""Shows a running application: a live display on a terminal, lines in a pipe, JSON for programs."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from rich.console import Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.spinner import Spinner
from rich.text import Text

from penstock.cli.terminal import count, print_json, say, stderr
from penstock.engine.shared.progress import Progress as Commit
from penstock.log.open import open_log

if TYPE_CHECKING:  # the engine needs pyspark, which only `penstock run` may import
    from penstock.engine.operate.restores import RestoreProgress
    from penstock.engine.running.streams import Streams

_LINE_SECONDS = 5.0
_LOOK_SECONDS = 0.5
_CATCH_UP_SECONDS = 2.0
"""Records may wait that long before a bar is shown; a steady stream always has some waiting."""


class Backlog:
    """An application's progress in its source topics; updated at most twice a second.

    It opens a separate log, because the application's belongs to the thread that makes the commits.
    """

    def __init__(self, streams: Streams):
        self._streams = streams
        self._log = open_log(streams.log.place)
        self._first = self._processed()
        self._looked = float("-inf")
        self.done = 0
        """Records processed since the start."""
        self.total = 0
        """Records processed since the start, and waiting ones."""

    def look(self) -> None:
        now = time.monotonic()
        if now - self._looked < _LOOK_SECONDS:
            return
        self._looked = now
        self.done = self._processed() - self._first
        ends = sum(sum(self._log.end_offsets(topic)) for topic in self._streams.topology.source_topics)
        self.total = ends - self._first

    def _processed(self) -> int:
        return sum(map(sum, self._streams.offsets().values()))


def left_out(commit: Commit) -> str:
    """Summarise the records lost since the start.

    >>> from penstock.figures.losses import Loss
    >>> late = Loss("late-record-drop-total", "hourly", "expired-window", 7)
    >>> left_out(Commit("app", 0, 9, 9, 0, 0.1, (late, Loss("dropped-records-total", "daily", "null-key", 2))))
    '7 dropped as late, 2 dropped'
    """
    sums: dict[str, int] = {}
    for loss in commit.losses:
        sums[loss.done] = sums.get(loss.done, 0) + loss.records
    return ", ".join(f"{records:,} {done}" for done, records in sums.items())


def restores_in_words(restores: Sequence[RestoreProgress]) -> str:
    """Summarise running and finished restores in a line; empty if no rows were restored.

    >>> from penstock.engine.operate.restores import RestoreProgress
    >>> done = RestoreProgress("counts", 0, 1_200_000, 2.5, 9, 9, "restored")
    >>> restores_in_words([done]), restores_in_words([RestoreProgress("counts", 0, 0, 0.1, 9, 9, "restored")])
    ('restored 1,200,000 rows of 1 store in 2.5 s', '')
    >>> restores_in_words([done, RestoreProgress("counts", 1, 300, 2.5, 4, 9, "restoring")])
    'restoring 2 stores: 1,200,300 rows in 2.5 s, 1 store ready'
    """
    rows, seconds = sum(one.rows for one in restores), max((one.seconds for one in restores), default=0.0)
    done = sum(one.is_done for one in restores)
    if done < len(restores):
        ready = f", {count(done, 'store')} ready" if done else ""
        return f"restoring {count(len(restores), 'store')}: {count(rows, 'row')} in {seconds:.1f} s{ready}"
    return f"restored {count(rows, 'row')} of {count(len(restores), 'store')} in {seconds:.1f} s" if rows else ""


class Display(Protocol):
    """The output while an application runs."""

    def status(self, message: str) -> None:
        """Show what is happening, until the next message."""

    def running(self, streams: Streams) -> None:
        """The application runs from now on."""

    def committed(self, commit: Commit) -> None:
        """A commit was made."""

    def restoring(self, restores: Sequence[RestoreProgress]) -> None:
        """Show the progress of restores; called several times a second."""

    def refresh(self) -> None:
        """Update the display; called several times a second."""

    def close(self) -> None:
        """End the display."""


_WORTH_SAYING_SECONDS = 1.0
"""Shorter restores are not shown: most starts restore a few rows, which takes no noticeable time."""


class _Restored:
    """Reports restores when all are done, and every few seconds in between."""

    def __init__(self) -> None:
        self._count = 0
        self._said = time.monotonic()

    def say(self, restores: Sequence[RestoreProgress]) -> None:
        if len(restores) == self._count:
            return
        is_done = all(one.is_done for one in restores)
        if is_done:
            self._count = len(restores)
        elif time.monotonic() - self._said < _LINE_SECONDS:
            return
        self._said = time.monotonic()
        took = max((one.seconds for one in restores), default=0.0)
        if (words := restores_in_words(restores)) and (not is_done or took >= _WORTH_SAYING_SECONDS):
            say(words)


class JsonDisplay:
    """One line of JSON for every commit, on standard output."""

    def __init__(self) -> None:
        self._restored = _Restored()

    def status(self, message: str) -> None:
        say(message)

    def running(self, streams: Streams) -> None:
        pass

    def committed(self, commit: Commit) -> None:
        print_json(commit.to_dict())
        sys.stdout.flush()

    def restoring(self, restores: Sequence[RestoreProgress]) -> None:
        self._restored.say(restores)

    def refresh(self) -> None:
        pass

    def close(self) -> None:
        pass


class LineDisplay:
    """A plain line every few seconds, for logs."""

    def __init__(self) -> None:
        self._said = float("-inf")
        self._told = 0
        self._restored = _Restored()
        self._waiting: Commit | None = None

    def status(self, message: str) -> None:
        say(message)

    def running(self, streams: Streams) -> None:
        pass

    def committed(self, commit: Commit) -> None:
        self._waiting = commit

    def restoring(self, restores: Sequence[RestoreProgress]) -> None:
        self._restored.say(restores)

    def refresh(self) -> None:
        if self._waiting is not None and time.monotonic() - self._said >= _LINE_SECONDS:
            self._say(self._waiting)

    def close(self) -> None:
        if self._waiting is not None:
            self._say(self._waiting)

    def _say(self, commit: Commit) -> None:
        now = time.monotonic()
        rate = (commit.total_records - self._told) / (now - self._said)
        speed = f", {rate:,.0f} records/s" if rate else ""
        to_go = f", {count(commit.lag, 'record')} to go" if commit.lag else ""
        lost = f", {left_out(commit)}" if commit.losses else ""
        say(f"commit {commit.commit}: {count(commit.total_records, 'record')} read{speed}{to_go}{lost}")
        self._said, self._told, self._waiting = now, commit.total_records, None


class LiveDisplay:
    """A bar while there is a backlog, then a summary; redrawn in place.

    Args:
        at_the_end: the application's state when no records wait.
    """

    def __init__(self, at_the_end: str):
        self._at_the_end = at_the_end
        self._backlog: Backlog | None = None
        self._message: str | None = None
        self._restores = ""
        """The running restores."""
        self._records = 0
        self._lost = ""
        self._last = 0.0
        self._behind_since: float | None = float("-inf")
        """Since when records have been waiting; from the beginning, if there are any at the start."""
        self._spinner = Spinner("dots")
        self._bar = Progress(
            TextColumn("catching up"),
            BarColumn(bar_width=None),
            _RecordsColumn(),
            _SpeedColumn(),
            TimeRemainingColumn(compact=True),
            expand=True,
        )
        self._task = self._bar.add_task("", total=None)
        self._live = Live(console=stderr(), get_renderable=self._picture, refresh_per_second=8, transient=True)
        self._live.start()

    def status(self, message: str) -> None:
        self._message = message

    def running(self, streams: Streams) -> None:
        self._message = None
        self._backlog = Backlog(streams)
        self.refresh()

    def committed(self, commit: Commit) -> None:
        self._records = commit.total_records
        self._lost = f" · {left_out(commit)}" if commit.losses else ""
        self._last = time.monotonic()

    def restoring(self, restores: Sequence[RestoreProgress]) -> None:
        self._restores = "" if all(one.is_done for one in restores) else restores_in_words(restores)

    def refresh(self) -> None:
        if self._backlog is None:
            return
        self._backlog.look()
        done, total = self._backlog.done, self._backlog.total
        if done == total:
            self._behind_since = None
        elif self._behind_since is None:
            self._behind_since = time.monotonic()
            self._bar.reset(self._task, total=None)
        self._bar.update(self._task, completed=done, total=total)

    def close(self) -> None:
        self._live.stop()

    def _picture(self) -> RenderableType:
        if self._message is not None:
            self._spinner.update(text=Text(self._message))
            return self._spinner
        if self._restores:
            self._spinner.update(text=Text(self._restores))
            return self._spinner
        if self._behind_since is not None and time.monotonic() - self._behind_since > _CATCH_UP_SECONDS:
            return Group(self._bar, Text(self._lost.removeprefix(" · "))) if self._lost else Group(self._bar)
        self._spinner.update(text=Text(self._waiting()))
        return self._spinner

    def _waiting(self) -> str:
        if not self._records:
            return self._at_the_end
        seconds = time.monotonic() - self._last
        since = "now" if seconds < 1 else f"{seconds:,.0f} s ago"
        return f"{self._at_the_end} · {count(self._records, 'record')} processed, the last {since}{self._lost}"


class _RecordsColumn(ProgressColumn):
    """How many records are done, of how many."""

    def render(self, task: Task) -> Text:
        return Text(f"{int(task.completed):,} / {int(task.total or 0):,} records")


class _SpeedColumn(ProgressColumn):
    """Records per second."""

    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:,.0f}/s" if task.speed else "", style="progress.data.speed")
