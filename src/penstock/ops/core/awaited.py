"""Calls of users' async functions: side by side, in one event loop of the process."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import wait
from typing import Any

from penstock.figures.moving import moving
from penstock.plan.awaiting import Awaiting
from penstock.usage.callers import only_users

_log = logging.getLogger(__name__)

Outcome = tuple[Any, BaseException | None]
"""The result of a call, and its error."""

_FIRST_WAIT, _LONGEST_WAIT = 0.1, 10.0
"""Seconds before the first and before later repetitions; each wait is twice the one before."""
_UNTIL_CANCELLED = 5.0
"""Seconds that calls have to end once they are cancelled, because of a time-out or the end of the program."""
_LONG = 0.5
"""Seconds for which a function may keep other calls from running; one that takes twice as long is told of."""


class Loops:
    """The event loop of this process. It runs in a thread of its own, and stays, because clients of HTTP and databases
    belong to the loop in which they were first used."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loops: dict[int, tuple[asyncio.AbstractEventLoop, threading.Thread]] = {}
        """By process: a child of fork has no threads of its parent."""

    def here(self) -> tuple[asyncio.AbstractEventLoop, threading.Thread]:
        """Return the loop of this process, and its thread; begin that loop first if this process has not."""
        with self._lock:
            found = self._loops.get(os.getpid())
            if found is None:
                loop = asyncio.new_event_loop()
                thread = threading.Thread(target=_run, args=[loop], name="penstock awaits calls", daemon=True)
                found = self._loops[os.getpid()] = loop, thread
                thread.start()
            return found


def _run(loop: asyncio.AbstractEventLoop) -> None:
    """Run a loop for good, even if a task of the user stops it or calls sys.exit: others wait for its calls."""
    while True:
        try:
            loop.run_forever()
            _log.warning("a function of the program stopped the event loop of its awaited calls; the loop goes on")
        except BaseException as error:
            _log.warning("a task that an awaited function started raised %r; the event loop goes on", error)


_loops = Loops()


def call_all(call: Callable[..., Any], rows: Sequence[tuple[Any, ...]], how: Awaiting) -> list[Outcome]:
    """Await a call for each row, so many at once. Return the outcome of each, in the order of the rows.

    If the waiting thread is interrupted, the calls are cancelled, and have a moment to end.
    """
    calls, (loop, thread) = _Calls(call, rows, how), _loops.here()
    try:  # calls may run, and the thread be interrupted, before it waits
        made = asyncio.run_coroutine_threadsafe(calls.make(), loop)
        runs = _runs(loop)
        while not wait([made], _LONG).done:
            if runs.is_set():
                runs = _runs(loop)
            else:
                _tell_of_block(thread)
        made.result()
    except BaseException:
        calls.cancel(loop)
        raise
    return calls.outcomes


def _runs(loop: asyncio.AbstractEventLoop) -> threading.Event:
    """Return what is set as soon as the loop gets to it."""
    runs = threading.Event()
    loop.call_soon_threadsafe(runs.set)
    return runs


_told: set[str] = set()
"""The lines that this process has told of."""


def _tell_of_block(thread: threading.Thread) -> None:
    """Warn, once for a line, that the user's code keeps the loop busy in this line."""
    frame = sys._current_frames().get(thread.ident or 0)
    for at in only_users(traceback.extract_stack(frame))[-1:] if frame is not None else ():
        line = f"{at.filename}:{at.lineno}"
        if line not in _told:
            _told.add(line)
            _log.warning(
                "an async function blocks in %s: %s. No other call runs meanwhile; await an async client in place of "
                "it, or `await asyncio.to_thread(...)` it",
                *(line, at.line),
            )


class _Calls:
    """The calls for some rows, each made by one of some workers."""

    def __init__(self, call: Callable[..., Any], rows: Sequence[tuple[Any, ...]], how: Awaiting):
        self._call, self._how = call, how
        self._seconds = None if how.timeout_ms is None else how.timeout_ms / 1000
        self._size = min(how.capacity, len(rows))
        self._following = iter(enumerate(rows))
        self.outcomes: list[Outcome] = [(None, None)] * len(rows)
        self._moved = moving.through([])
        self._task: asyncio.Task[Any] | None = None
        self._at: dict[asyncio.Task[Any], tuple[int, float]] = {}
        """For each worker the number of its call, and when its attempt began."""
        self._is_cancelled = False
        self._ended = threading.Event()

    async def make(self) -> None:
        self._task = asyncio.current_task()
        working = {asyncio.ensure_future(self._work()) for _ in range(0 if self._is_cancelled else self._size)}
        try:
            while working:
                done, working = await asyncio.wait(working, timeout=_UNTIL_CANCELLED)
                for worker in done:
                    worker.result()
                for worker in self._stuck(working):
                    working = (working - {worker}) | {asyncio.ensure_future(self._work())}
        finally:
            for worker in working:
                worker.cancel()
            if working:
                await asyncio.wait(working, timeout=_UNTIL_CANCELLED)
            self._ended.set()

    async def _work(self) -> None:
        worker = asyncio.current_task()
        assert worker is not None
        for number, arguments in self._following:
            outcome = await self._one(worker, number, arguments)
            if worker not in self._at:  # its call was given up
                return
            self.outcomes[number] = outcome
            self._moved.append(number)

    async def _one(self, worker: asyncio.Task[Any], number: int, arguments: tuple[Any, ...]) -> Outcome:
        """Make one call, and repeat it as often as the user allows."""
        outcome: Outcome = (None, None)
        for attempt in range(self._how.retries + 1):
            if attempt:
                self._at[worker] = number, math.inf
                await asyncio.sleep(min(_FIRST_WAIT * 2 ** (attempt - 1), _LONGEST_WAIT))
            self._at[worker] = number, time.monotonic()
            outcome = await self._attempt(worker, arguments)
            if outcome[1] is None or worker not in self._at:
                break
        return outcome

    async def _attempt(self, worker: asyncio.Task[Any], arguments: tuple[Any, ...]) -> Outcome:
        limit = asyncio.timeout(self._seconds)
        try:
            async with limit:
                result = await self._call(*arguments)
            if worker.cancelling():  # the function cancelled its own task, which the next await notices
                await asyncio.sleep(0)
            return result, None
        except TimeoutError as error:
            return None, self._late() if limit.expired() else error
        except asyncio.CancelledError as error:
            if self._is_cancelled:
                raise
            while worker.uncancel():
                pass
            return None, error
        except GeneratorExit:
            raise
        except BaseException as error:  # a call of sys.exit is a failure like any other
            return None, error

    def _late(self, more: str = "") -> TimeoutError:
        attempts = f", {self._how.retries + 1} times" if self._how.retries else ""
        return TimeoutError(f"the function took longer than timeout={self._how.timeout_ms} ms{attempts}{more}")

    def _stuck(self, working: set[asyncio.Task[Any]]) -> list[asyncio.Task[Any]]:
        """Give up calls that go on long after their time-out, and return their workers."""
        if self._seconds is None:
            return []
        least = time.monotonic() - self._seconds - _UNTIL_CANCELLED
        found = [worker for worker in working if worker in self._at and self._at[worker][1] < least]
        for worker in found:
            number, _ = self._at.pop(worker)
            error = self._late(". It goes on although it was cancelled: let the function raise CancelledError")
            self.outcomes[number] = None, error
        return found

    def cancel(self, loop: asyncio.AbstractEventLoop) -> None:
        """Cancel the calls, from the thread that waits for them, and let them end."""
        self._is_cancelled = True
        loop.call_soon_threadsafe(self._cancel_task)
        self._ended.wait(_UNTIL_CANCELLED)

    def _cancel_task(self) -> None:
        if self._task is not None:
            self._task.cancel()
