"""The driver's loop: commits as records come, punctuations and idle time in between, in a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from penstock.engine.attempt import Ends
from penstock.engine.coordinator import CommitDone, Coordinator
from penstock.errors import PenstockError, ProcessingError

_LONGEST_SECONDS = 60.0
"""How long to wait for records when nothing can be due: whatever ends a wait is told."""


class CommitLoop:
    """Makes commits until it is stopped, or until all that was there when it was made is processed.

    Args:
        interval: the seconds from the beginning of a commit to that of the next, at least; 0 for as fast as it goes.
        ends_with_input: whether it ends when all that is there now is processed.
        on_commit: called after every commit, with the ends of the topics as they were before it.
        check: called whenever it wakes; raises when it cannot go on.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        interval: float,
        ends_with_input: bool,
        on_commit: Callable[[CommitDone, Ends], None],
        check: Callable[[], None] = lambda: None,
    ):
        self.error: PenstockError | None = None
        """Why it ended, if not well."""
        self._coordinator = coordinator
        self._interval = interval
        self._on_commit = on_commit
        self._check = check
        topology = coordinator.topology
        self._own = set(topology.source_topics) & set(topology.sink_topics)
        """The topics that the application both writes and reads."""
        self._watch = coordinator.log.watch(topology.source_topics)
        self._ends = coordinator.end_offsets() if ends_with_input else None
        self._asking = threading.Lock()
        self._asked: list[threading.Event] = []
        """Who waits until everything there is has been processed."""
        self._is_stopping = False
        self._thread = threading.Thread(
            target=self._run, name=f"penstock {coordinator.application_id} commits", daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    @property
    def has_ended(self) -> bool:
        return not self._thread.is_alive()

    def wake(self) -> None:
        """Look at once whether there is anything to do; from any thread."""
        self._watch.wake()

    def stop(self) -> None:
        """Finish the commit under way, and end."""
        self._is_stopping = True
        self._watch.wake()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it ends; whether it did within so many seconds."""
        self._thread.join(timeout)
        return self.has_ended

    def process_all_available(self) -> None:
        """Wait until everything that is in the source topics now is processed, or the loop has ended."""
        done = threading.Event()
        with self._asking:
            self._asked.append(done)
        self._watch.wake()
        while not done.wait(0.2) and not self.has_ended:
            pass

    def _run(self) -> None:
        try:
            while not self._is_stopping:
                began = time.monotonic()
                with self._asking:
                    asked = list(self._asked)
                self._check()
                ends = self._ends_now()
                done = self._coordinator.step(ends)
                if done is None and self._ends is None:
                    done = self._coordinator.advance_time()
                if done is not None:
                    self._on_commit(done, ends)
                    self._pause_until(began + self._interval)
                    continue
                with self._asking:
                    self._asked = [one for one in self._asked if one not in asked]
                for one in asked:
                    one.set()
                if self._ends is not None:
                    break
                self._watch.wait(self._patience())
        except PenstockError as error:
            self.error = error
        except Exception as error:
            self.error = self._unexpected(error)
        finally:
            self._watch.close()

    def _ends_now(self) -> Ends:
        """Up to where to read: for a loop that ends with its input what was there when it was made, and what the
        application itself has written into its sources since."""
        if self._ends is None:
            return self._coordinator.end_offsets()
        return self._ends | {topic: self._coordinator.log.end_offsets(topic) for topic in self._own}

    def _patience(self) -> float:
        """How long until something can be due without records, in seconds."""
        return min(self._coordinator.idle.seconds(), _LONGEST_SECONDS) if self._coordinator.idle else _LONGEST_SECONDS

    def _pause_until(self, time_: float) -> None:
        """Let records gather for the next commit, unless somebody waits for them."""
        while not self._is_stopping and not self._asked and (left := time_ - time.monotonic()) > 0:
            time.sleep(min(left, 0.02))

    def _unexpected(self, error: Exception) -> PenstockError:
        coordinator = self._coordinator
        return ProcessingError(
            f"application {coordinator.application_id!r} stopped at commit {coordinator.manifest.commit + 1}: "
            f"{type(error).__name__}: {error}; everything committed before is safe"
        )
