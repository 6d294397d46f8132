"""Errors of users' store classes, with the place where they were raised."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.errors import PenstockError, StoreError
from penstock.state.interface import StateStore
from penstock.state.wrappers import InTransactions


def named(store: StateStore) -> str:
    """Return a user's store as messages name it: its name and its class."""
    kind = type(store.wrapped if isinstance(store, InTransactions) else store)
    return f"the store {store.name!r} ({kind.__module__}.{kind.__qualname__})"


@contextmanager
def told(store: StateStore, method: str) -> Iterator[None]:
    """Turn errors of a user's class into a ``StoreError`` that names the place."""
    try:
        yield
    except PenstockError:
        raise
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        raise StoreError(
            f"{named(store)} failed in {method} at {last.filename}:{last.lineno}: {type(error).__name__}: {error}. "
            "Committed data is safe: fix the class or its medium and start again, and the store receives the "
            "missing rows"
        ) from error
