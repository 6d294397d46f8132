"""Checks before Spark starts that the slots can unpack what is sent to them.

A child process unpacks it, in which ``__main__`` is another module, as in a slot. That takes milliseconds. If the child
gives no answer, nothing is refused.
"""

from __future__ import annotations

import gc
import os
import pickle
import selectors
import signal
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from types import ModuleType

from penstock.messages import describe

_SECONDS = 10.0
"""How long the child may take."""
_TELLING = (AttributeError, ImportError, NameError, TypeError, pickle.UnpicklingError)
"""Errors that a slot would have, too; others may be caused by the fork."""
_MOST_BYTES = 4_000
_FAILED = b"!"


def problem_of(data: bytes, loads: Callable[[bytes], object]) -> str:
    """Return why another process cannot unpack packed data; empty if no problem is known."""
    if sys.platform != "linux":  # elsewhere a process with threads may not be forked
        return ""
    ends = os.pipe()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python warns of threads, but the child only unpacks
            child = os.fork()
    except OSError:
        os.close(ends[0])
        os.close(ends[1])
        return ""
    if child == 0:
        _tell(ends[1], data, loads)
    os.close(ends[1])
    with os.fdopen(ends[0], "rb", buffering=0) as told:
        said = _heard(told.fileno())
    with suppress(OSError):
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return said.removeprefix(_FAILED).decode(errors="replace") if said.startswith(_FAILED) else ""


def _heard(end: int) -> bytes:
    with selectors.DefaultSelector() as selector:
        selector.register(end, selectors.EVENT_READ)
        return os.read(end, _MOST_BYTES) if selector.select(_SECONDS) else b""


def _tell(end: int, data: bytes, loads: Callable[[bytes], object]) -> None:
    """In the child: unpack, report, and exit without running any of the parent's code."""
    try:
        gc.disable()
        nowhere = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(nowhere, number)
        users = sys.modules["__main__"]  # kept alive: none of the user's objects may be closed here
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            loads(data)
            said = b"."
        except _TELLING as error:
            said = _FAILED + describe(error).encode()[: _MOST_BYTES - 1]
        os.write(end, said)
        del users
    finally:
        os._exit(0)
