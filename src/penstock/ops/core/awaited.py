"""Calls of users' async functions: side by side, in one event loop of the process."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, wait
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
"""Seconds that calls have to end once they are cancelled."""
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
                thread = threading.Thread(target=loop.run_forever, name="penstock awaits calls", daemon=True)
                found = self._loops[os.getpid()] = loop, thread
                thread.start()
            return found


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
    """The calls for some rows."""

    def __init__(self, call: Callable[..., Any], rows: Sequence[tuple[Any, ...]], how: Awaiting):
        self._call, self._how = call, how
        self._size = min(how.capacity, len(rows))
        self._following = iter(enumerate(rows))
        self.outcomes: list[Outcome] = [(None, None)] * len(rows)
        self._moved = moving.through([])
        self._task: asyncio.Task[Any] | None = None
        self._is_cancelled = False
        self._ended = threading.Event()

    async def make(self) -> None:
        self._task = asyncio.current_task()
        workers = [asyncio.ensure_future(self._work()) for _ in range(0 if self._is_cancelled else self._size)]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
            self._ended.set()

    async def _work(self) -> None:
        for number, arguments in self._following:
            self.outcomes[number] = await _one(self._call, arguments, self._how)
            self._moved.append(number)

    def cancel(self, loop: asyncio.AbstractEventLoop) -> None:
        """Cancel the calls, from the thread that waits for them, and let them end."""
        self._is_cancelled = True
        loop.call_soon_threadsafe(self._cancel_task)
        self._ended.wait(_UNTIL_CANCELLED)

    def _cancel_task(self) -> None:
        if self._task is not None:
            self._task.cancel()


async def _one(call: Callable[..., Any], arguments: tuple[Any, ...], how: Awaiting) -> Outcome:
    """Make one call, and repeat it as often as the user allows."""
    outcome: Outcome = (None, None)
    for attempt in range(how.retries + 1):
        if attempt:
            await asyncio.sleep(min(_FIRST_WAIT * 2 ** (attempt - 1), _LONGEST_WAIT))
        outcome = await _attempt(call, arguments, how)
        if outcome[1] is None:
            break
    return outcome


async def _attempt(call: Callable[..., Any], arguments: tuple[Any, ...], how: Awaiting) -> Outcome:
    limit = asyncio.timeout(None if how.timeout_ms is None else how.timeout_ms / 1000)
    try:
        async with limit:
            return await call(*arguments), None
    except TimeoutError as error:
        if not limit.expired():
            return None, error
        attempts = f", {how.retries + 1} times" if how.retries else ""
        return None, TimeoutError(f"the function took longer than timeout={how.timeout_ms} ms{attempts}")
    except (asyncio.CancelledError, CancelledError) as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        return None, error
    except GeneratorExit:
        raise
    except BaseException as error:  # a call of sys.exit is a failure like any other
        return None, error
