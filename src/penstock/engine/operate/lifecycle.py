"""The life cycle of a running application: its states as in Kafka Streams, their listener, and the end."""

from __future__ import annotations

import logging
import shutil
import threading
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Any

from penstock.engine.operate.lock import ApplicationLock
from penstock.errors import AlreadyRunningError, ConfigError, FencedError, PenstockError, SparkLostError
from penstock.messages import show
from penstock.usage.calls import close, refuse_result, why_unusable

_log = logging.getLogger(__name__)


class State(StrEnum):
    """The state of an application (``KafkaStreams.State``).

    >>> State.RUNNING.is_running_or_rebalancing, State.ERROR.has_completed_shutdown
    (True, True)
    """

    CREATED = "CREATED"
    REBALANCING = "REBALANCING"
    """Its tasks are being opened, in their first slots or in new ones."""
    RUNNING = "RUNNING"
    PENDING_SHUTDOWN = "PENDING_SHUTDOWN"
    """The current commit is the last one."""
    NOT_RUNNING = "NOT_RUNNING"
    PENDING_ERROR = "PENDING_ERROR"
    ERROR = "ERROR"
    """It has stopped because of an error; ``exception()`` returns it."""

    @property
    def is_running_or_rebalancing(self) -> bool:
        """Whether the application works, or is about to."""
        return self in (State.RUNNING, State.REBALANCING)

    @property
    def is_shutting_down(self) -> bool:
        """Whether it is about to stop."""
        return self in (State.PENDING_SHUTDOWN, State.PENDING_ERROR)

    @property
    def has_completed_shutdown(self) -> bool:
        """Whether it has stopped."""
        return self in (State.NOT_RUNNING, State.ERROR)


_NEXT = {
    State.CREATED: {State.REBALANCING, State.PENDING_SHUTDOWN},
    State.REBALANCING: {State.RUNNING, State.PENDING_SHUTDOWN, State.PENDING_ERROR},
    State.RUNNING: {State.REBALANCING, State.PENDING_SHUTDOWN, State.PENDING_ERROR},
    State.PENDING_SHUTDOWN: {State.NOT_RUNNING},
    State.NOT_RUNNING: set(),
    State.PENDING_ERROR: {State.ERROR},
    State.ERROR: set(),
}


class UncaughtExceptionResponse(StrEnum):
    """The answer of an uncaught exception handler (``StreamThreadExceptionResponse``); the plain strings work too.

    >>> UncaughtExceptionResponse("replace") is UncaughtExceptionResponse.REPLACE_THREAD
    True
    """

    REPLACE_THREAD = "replace"
    """Start again from the last commit, with new tasks."""
    SHUTDOWN_CLIENT = "stop"
    """Stop the program; so does ``SHUTDOWN_APPLICATION``, since there is one program for an application."""
    SHUTDOWN_APPLICATION = "stop_application"


StateListener = Callable[[State, State], Any]
"""Called with the new state and the previous one."""
UncaughtExceptionHandler = Callable[[PenstockError], Any]
"""Called with the error that would end the program; answers an ``UncaughtExceptionResponse``."""

_FOR_GOOD = (FencedError, AlreadyRunningError, SparkLostError, ConfigError)
"""Errors after which a new attempt would fail again."""


class Lifecycle:
    """The state of an application, with Kafka Streams' transitions.

    Args:
        listener: called with every change, in order; its exceptions are logged.
        handler: decides about an error that would end the program.

    >>> life = Lifecycle(lambda new, old: print(old, "->", new))
    >>> life.to(State.REBALANCING), life.to(State.NOT_RUNNING)
    CREATED -> REBALANCING
    (True, False)
    """

    def __init__(self, listener: StateListener | None = None, handler: UncaughtExceptionHandler | None = None):
        check_callable(listener, "state_listener", "(new state, old state)")
        check_callable(handler, "uncaught_exception_handler", "(error)")
        self.listener = listener
        self.handler = handler
        self._state = State.CREATED
        self._changing = threading.RLock()

    @property
    def state(self) -> State:
        return self._state

    def to(self, new: State) -> bool:
        """Change the state. Return False, and do nothing, if the transition is not allowed."""
        with self._changing:
            old = self._state
            if new not in _NEXT[old]:
                return False
            self._state = new
            if self.listener is not None:
                try:
                    refuse_result(self.listener(new, old))
                except Exception:
                    _log.exception("the state listener failed at %s -> %s", old, new)
            return True

    def ends(self, error: PenstockError | None) -> None:
        """End the application, by an error or normally."""
        if error is None:
            self.to(State.PENDING_SHUTDOWN)
            self.to(State.NOT_RUNNING)
        else:
            if not self.to(State.PENDING_ERROR):
                self.to(State.NOT_RUNNING)  # it was being stopped already
            self.to(State.ERROR)

    def goes_on_after(self, error: PenstockError) -> bool:
        """Return whether the handler wants to start again after an error; always False if that cannot help.

        Raises:
            ConfigError: the handler returns something else.
        """
        if self.handler is None or isinstance(error, _FOR_GOOD):
            return False
        answer = self.handler(error)
        if answer not in tuple(UncaughtExceptionResponse):
            close(answer)
            raise ConfigError(
                f"the uncaught_exception_handler must answer one of "
                f"{', '.join(repr(str(one)) for one in UncaughtExceptionResponse)}; got {show(answer)}"
            ) from error
        return bool(answer == UncaughtExceptionResponse.REPLACE_THREAD)


def check_callable(given: Any, what: str, arguments: str) -> None:
    """Raise ``ConfigError`` for a value that is no function, or a function whose call has no effect."""
    if given is not None and not callable(given):
        raise ConfigError(f"{what} is a function of {arguments}; got {show(given)}")
    if given is not None and (why := why_unusable(given)):
        raise ConfigError(f"{what} is a function of {arguments}; {show(given)} is {why}")


def clean_up(state_dir: Path, application_id: str) -> None:
    """Remove an application's databases from this machine; the next start restores them from the checkpoint.

    Raises:
        AlreadyRunningError: it is running.
    """
    lock = ApplicationLock(state_dir, application_id)
    try:
        shutil.rmtree(state_dir / "tasks", ignore_errors=True)
    finally:
        lock.release()
