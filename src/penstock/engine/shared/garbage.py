"""Garbage collection in Python processes that stay: the objects of modules and programs are left out of it.

A collection that goes through them takes some 50 ms of CPU. Spark makes one after each task of Python.
"""

from __future__ import annotations

import gc

_is_apart = False


def set_apart() -> None:
    """Exclude the objects that exist before any work, mostly modules, from garbage collection.

    A process that has done other work before has garbage of that program, which is collected first.
    """
    global _is_apart
    if _is_apart:
        gc.unfreeze()
        gc.collect()
    gc.freeze()
    _is_apart = True


def set_apart_once() -> None:
    """Do so once in a process, whatever it runs later."""
    if not _is_apart:
        set_apart()
