"""The driver's loop, in its own thread: commits as records arrive, with punctuations and idle time in between."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TypeVar

from penstock.engine.commit.attempt import Attempt
from penstock.engine.commit.coordinator import CommitDone, Coordinator
from penstock.engine.commit.opening import Ends
from penstock.engine.commit.pace import Pace
from penstock.engine.commit.parts import AttemptInParts, More
from penstock.engine.shared.moved import NOTE_SECONDS
from penstock.errors import PenstockError, ProcessingError

Question = TypeVar("Question")
Answer = TypeVar("Answer")

_log = logging.getLogger(__name__)

_SECONDS_BEFORE_ANOTHER = 0.1

_SECONDS_BETWEEN_LOOKS = 1.0
"""Longest time until a topic is noticed that matches a pattern (Kafka's `metadata.max.age.ms`)."""

_SHORTEST_SECONDS = 0.005

MOST_SECONDS_BESIDE = 0.25
"""Commits that take longer are published before the next one begins. Overlapping would save little, and their results
should be visible soon.
"""

_SEEN_SECONDS = 60.0
"""How long tasks work between commits after a query for what is not committed."""

_BETWEEN_SECONDS = 0.05
"""How soon records that cannot be read yet are looked at again, between commits."""

_HELD_SECONDS = 0.1
"""How soon a loop that is held asks again."""

_LONGEST_SECONDS = 60.0
"""How long to wait for records when nothing can be due; every event that matters ends the wait."""


class CommitLoop:
    """Makes commits until it is stopped, or until all records that existed at its creation are processed.

    Args:
        interval: the minimum number of seconds from the beginning of a commit to that of the next; 0 for what `share`
            says.
        ends_with_input: whether it ends when all records that exist now are processed.
        on_commit: called after every commit, with the ends of the topics as read before it.
        check: called whenever it wakes; raises when it cannot continue.
        goes_on_after: asked before an error ends the loop; True restarts from the last commit.
        takes_up: called from time to time, to take up topics that have appeared. Returns the coordinator that continues
            with them, or None if there are none.
        on_end: called when it has ended, with the error if it failed.
        on_begin: called first, in the loop's thread; records that it adds are processed as well.
        on_done: called when all records are processed, before the loop ends.
        attempts: makes attempts at commits. Only those of slots work between commits.
        holds: asked before each commit; while it is true, no commit is made.
        share: the share of one core that commits may take while there is little to do; 0 for no pauses.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        interval: float,
        ends_with_input: bool,
        on_commit: Callable[[CommitDone, Ends], None],
        check: Callable[[], None] = lambda: None,
        goes_on_after: Callable[[PenstockError], bool] = lambda error: False,
        on_end: Callable[[PenstockError | None], None] = lambda error: None,
        takes_up: Callable[[], Coordinator | None] = lambda: None,
        on_begin: Callable[[], None] | None = None,
        on_done: Callable[[], None] = lambda: None,
        attempts: Callable[..., Attempt] = Attempt,
        holds: Callable[[], bool] = lambda: False,
        share: float = 0.0,
    ):
        self.error: PenstockError | None = None
        """The error that ended the loop, if any."""
        self._interval = interval
        self._on_commit = on_commit
        self._check = check
        self._goes_on_after = goes_on_after
        self._on_end = on_end
        self._takes_up = takes_up
        self._on_begin = on_begin
        self._on_done = on_done
        self._attempts = attempts
        self._holds = holds
        self._next_look = 0.0
        self._made: tuple[CommitDone, Ends, float] | None = None
        """A commit whose output may not be visible yet, the ends it read to, and when it was made."""
        self.rests = threading.Event()
        """Set when the loop is paused and the running commit is finished."""
        self.is_paused = False
        """True while the loop is paused."""
        self._take(coordinator)
        self._pace = Pace(0.0 if ends_with_input or interval else share, lambda: self._coordinator.runner.cpu_seconds)
        self._ends = coordinator.end_offsets() if ends_with_input else None
        if ends_with_input:
            coordinator.idling.seconds = 0.0  # records that do not exist are not waited for
        self._due = 0.0
        """When the next commit is due; tasks may work before that."""
        self._asked_at = -_SEEN_SECONDS
        """When a query last asked for what is not committed."""
        self._seen: Ends = {}
        """The ends up to which the running attempt reads."""
        self._asking = threading.Lock()
        self._asked: list[threading.Event] = []
        """Callers that wait until all existing records have been processed."""
        self._is_stopping = False
        self._over = threading.Event()
        """Set when the loop has ended. Ctrl-C in ``Thread.join`` would have Python take the thread for ended."""
        self._thread = threading.Thread(
            target=self._run, name=f"penstock {coordinator.application_id} commits", daemon=True
        )

    def _take(self, coordinator: Coordinator) -> None:
        """Let a coordinator make the commits from now on."""
        topology = coordinator.topology
        self._coordinator = coordinator
        coordinator.publishing.on_done = self._tell
        self._own = set(topology.source_topics) & set(topology.sink_topics)
        """The topics that the application both writes and reads."""
        self._watch = coordinator.log.watch(topology.source_topics)

    def start(self) -> None:
        self._thread.start()

    @property
    def has_ended(self) -> bool:
        return self._over.is_set() or self._thread.ident is None

    def wake(self) -> None:
        """Look at once whether there is anything to do; from any thread."""
        self._watch.wake()

    def stop(self, timeout: float | None = None) -> bool:
        """Finish the running commit, and end. Return whether the loop ended within the timeout, in seconds.

        After the timeout the commit is given up where possible; the next start makes it again.
        """
        self._is_stopping = True
        self._watch.wake()
        if not self.has_ended and self._thread is not threading.current_thread() and not self._over.wait(timeout):
            self._coordinator.give_up()
        return self.has_ended

    def pause(self) -> None:
        """Process nothing after the running commit."""
        self.is_paused = True
        self._watch.wake()

    def resume(self) -> None:
        """Continue after a pause."""
        self.is_paused = False
        self.rests.clear()
        self._watch.wake()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the loop ends. Return whether it did within the timeout, in seconds."""
        if not self.has_ended:
            self._over.wait(timeout)
        return self.has_ended

    def process_all_available(self) -> None:
        """Wait until all records that are in the source topics now are processed, or the loop has ended."""
        done = threading.Event()
        with self._asking:
            self._asked.append(done)
        self._watch.wake()
        while not done.wait(0.2) and not self.has_ended:
            pass

    def _run(self) -> None:
        try:
            if self._on_begin is not None:
                self._on_begin()
                self._ends = None if self._ends is None else self._coordinator.end_offsets()
            while (error := self._work()) is not None and not self._is_stopping and self._begins_anew(error):
                time.sleep(_SECONDS_BEFORE_ANOTHER)  # do not keep a core busy if the error returns immediately
            self.error = error
            if error is None and not self._is_stopping:
                self._on_done()
        except PenstockError as error:
            self.error = error
        except Exception as error:
            self.error = self._unexpected(error)
        finally:
            try:
                self._watch.close()
                self._on_end(self.error)
            finally:
                self._over.set()

    def _begins_anew(self, error: PenstockError) -> bool:
        if not self._goes_on_after(error):
            return False
        _log.warning("%s\n  the uncaught_exception_handler starts it again from the last commit", error)
        return True

    def _work(self) -> PenstockError | None:
        """Make commits until the loop has to end. Return the error that ended it, if any."""
        try:
            try:
                self._make_commits()
            finally:
                self._coordinator.publishing.finish()
        except PenstockError as error:
            return error
        except Exception as error:
            return self._unexpected(error)
        finally:
            self._coordinator.publishing.close()
            self._coordinator.publishing.is_beside = False
        return None

    def _make_commits(self) -> None:
        while not self._is_stopping:
            if self.is_paused:
                self._coordinator.publishing.finish()
                self.rests.set()
                self._coordinator.moved.note()
                self._watch.wait(NOTE_SECONDS)
                continue
            began = time.monotonic()
            with self._asking:
                asked = list(self._asked)
            self._look_for_topics()
            self._check()
            if self._holds():
                self._coordinator.publishing.finish()
                self._coordinator.moved.note()
                self._watch.wait(_HELD_SECONDS)
                continue
            ends = self._ends_now()
            if self._ends is None:
                self._watch.has_seen(ends)
            due = self._due if self._due > began and self._works_between() else None
            attempts = self._attempts if due is None else partial(AttemptInParts, more=partial(self._more, due))
            self._seen = ends
            done = self._coordinator.step(ends, attempts=attempts)
            if done is None and self._ends is None:
                done = self._coordinator.advance_time(attempts)
            if done is not None:
                self._take_note(done, self._seen)
                self._due = (began if due is None else max(due, began)) + (self._interval or self._rest())
                self._pause_until(self._due)
                continue
            waits = self._coordinator.waits(ends)
            if waits is not None:  # there are more records, but tasks wait before they continue
                self._coordinator.moved.note()
                self._watch.wait(min(max(waits, _SHORTEST_SECONDS), self._patience(), NOTE_SECONDS))
                continue
            with self._asking:
                self._asked = [one for one in self._asked if one not in asked]
            for one in asked:
                one.set()
            if self._ends is not None:
                break
            self._watch.wait(self._patience())

    def _take_note(self, done: CommitDone, ends: Ends) -> None:
        """Report a commit, now or when its output is visible, and choose how the next one is published."""
        publishing = self._coordinator.publishing
        self._made = done, ends, time.monotonic()
        if not publishing.is_under_way:
            self._tell(0.0)
        is_short = done.seconds < MOST_SECONDS_BESIDE
        publishing.is_beside = is_short and self._interval == 0 and publishing.can_be_beside()

    def _tell(self, visible_at: float) -> None:
        """Report the commit whose output is now visible."""
        made, self._made = self._made, None
        if made is not None:
            done, ends, at = made
            self._on_commit(replace(done, seconds=done.seconds + max(visible_at - at, 0.0)), ends)

    def _look_for_topics(self) -> None:
        """If sources read by pattern, look from time to time for topics that have appeared."""
        if not self._coordinator.topology.has_patterns or self._ends is not None or time.monotonic() < self._next_look:
            return
        coordinator = self._takes_up()
        if coordinator is not None:
            before = self._watch
            self._take(coordinator)
            before.close()
        self._next_look = time.monotonic() + _SECONDS_BETWEEN_LOOKS

    def _ends_now(self) -> Ends:
        """Return the offsets up to which to read.

        A loop that ends with its input reads what existed when it was made, and what the application itself has written
        into its sources since.
        """
        if self._ends is None:
            return self._coordinator.end_offsets()
        return self._ends | {topic: self._coordinator.log.end_offsets(topic) for topic in self._own}

    def _patience(self) -> float:
        """Return the seconds until something can be due without records."""
        longest = _SECONDS_BETWEEN_LOOKS if self._coordinator.topology.has_patterns else _LONGEST_SECONDS
        longest = min(longest, self._coordinator.runner.look_seconds)
        return min(self._coordinator.idle.seconds(), longest) if self._coordinator.idle else longest

    def _rest(self) -> float:
        """Return the seconds from the beginning of the last commit to that of the next, where no interval is given."""
        seconds = self._pace.seconds()
        is_behind = seconds and (self._coordinator.manifest.waiting or self._coordinator.lag(self._seen))
        return 0.0 if is_behind else seconds

    def _pause_until(self, time_: float) -> None:
        """Let records gather for the next commit, unless a caller waits for them, or queries see what is written."""
        while not self._hurries() and not self._works_between() and (left := time_ - time.monotonic()) > 0:
            self._coordinator.moved.note()
            time.sleep(min(left, 0.02))

    # --- between commits -----------------------------------------------------------------------------------------

    def noting(self, ask: Callable[[Question], Answer]) -> Callable[[Question], Answer]:
        """Return a function that asks running tasks for what is not committed: for a while, these work on what comes
        between commits, too.
        """

        def asked(question: Question) -> Answer:
            self._asked_at = time.monotonic()
            return ask(question)

        return asked

    def _works_between(self) -> bool:
        """Return whether tasks work while their commit is not due, because queries see what is not committed."""
        coordinator = self._coordinator
        if self._attempts is not Attempt:
            return False
        is_seen = coordinator.settings.queries_see == "read_uncommitted"
        is_seen = is_seen or time.monotonic() - self._asked_at < _SEEN_SECONDS
        return is_seen and self._interval > 0 and self._ends is None and coordinator.works_in_parts()

    def _hurries(self) -> bool:
        """Return whether the commit is due before its time: the loop must stop or pause, or a caller waits."""
        return self._is_stopping or self.is_paused or bool(self._asked)

    def _more(self, due: float, attempt: AttemptInParts) -> More | None:
        """Wait for something to do before a commit is due; None once it is."""
        self._coordinator.idle.had_records(attempt.busy_tasks)
        is_new = bool(attempt.busy_tasks)
        while not self._hurries() and (left := due - time.monotonic()) > 0:
            self._check()
            ends = self._ends_now()
            self._watch.has_seen(ends)
            more = self._coordinator.more(attempt, ends)
            if more is not None and (is_new or more.advances or self._seen != ends):
                self._seen = ends
                return more
            self._coordinator.moved.note()
            self._watch.wait(min(left, NOTE_SECONDS, self._patience() if more is None else _BETWEEN_SECONDS))
            is_new = more is not None  # records that cannot be read yet are looked at again after a moment
        return None

    def _unexpected(self, error: Exception) -> PenstockError:
        coordinator = self._coordinator
        return ProcessingError(
            f"application {coordinator.application_id!r} stopped at commit {coordinator.manifest.commit + 1}: "
            f"{type(error).__name__}: {error}; everything committed before is safe"
        )
