"""The other applications whose topics are in the same log: their state, and their pages."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from penstock.errors import ConfigError, PenstockError
from penstock.log.base import Log
from penstock.query.application import ApplicationStores, open_stores
from penstock.query.health import HealthCheck
from penstock.query.server import Served
from penstock.storage.base import LocalStorage

_FRESH_SECONDS = 5.0
_SHARE = 200
"""A look takes at most one in so many parts of the time."""

_MOST = 200
"""The number of applications that are looked at."""

_MOST_PAGES = 8
"""The number of applications whose pages are open at a time; the one that was opened first is closed first."""


class Neighbour(NamedTuple):
    """Another application."""

    name: str
    stores: ApplicationStores
    health: HealthCheck


class Neighbours:
    """The applications beside one, found in the folder that has their states.

    Args:
        stores: the stores of the application itself.
        log: its log.
        page: makes the page of another application; None to show no other pages.
    """

    def __init__(
        self, stores: ApplicationStores, log: Log | None, page: Callable[[ApplicationStores, Log], Served] | None = None
    ):
        self._own, self._log, self._page = stores, log, page
        self._known: dict[str, Neighbour] = {}
        self._pages: dict[str, tuple[Served, ApplicationStores]] = {}
        self._lock = threading.Lock()
        self._looked = float("-inf")
        self._fresh = _FRESH_SECONDS
        self._listing: list[dict[str, Any]] = []

    def listing(self) -> list[dict[str, Any]]:
        """All applications of the log by name, this one included."""
        with self._lock:
            if time.monotonic() - self._looked > self._fresh:
                began = time.thread_time()
                self._listing = self._look()
                self._looked = time.monotonic()
                self._fresh = max(_FRESH_SECONDS, _SHARE * (time.thread_time() - began))
            return self._listing

    def _look(self) -> list[dict[str, Any]]:
        own = _application_of(self._own)
        found = [{"name": own[0], "address": "/", "is_own": True, **_told(HealthCheck(self._own, self._log))}]
        for folder in _folders_beside(self._own)[:_MOST]:
            one = self._neighbour(folder)
            if one is not None and one.name != own[0]:
                address = None if self._page is None else f"/applications/{folder.name}/"
                found.append({"name": one.name, "address": address, "is_own": False, **_told(one.health)})
        return sorted(found, key=lambda one: str(one["name"]))

    def _neighbour(self, folder: Path) -> Neighbour | None:
        """The application in a folder; None if it cannot be read, or uses another log."""
        if folder.name not in self._known:
            try:
                stores = open_stores(folder)
                name, log = _application_of(stores)
            except (PenstockError, OSError):
                return None
            if log != _application_of(self._own)[1]:
                return None
            self._known[folder.name] = Neighbour(name, stores, HealthCheck(stores, self._log))
        return self._known[folder.name]

    def page(self, name: str) -> tuple[Served, ApplicationStores]:
        """The page of another application; raises ``ConfigError`` if it has no page."""
        listed = [one["address"] for one in self.listing()]
        if self._page is None or self._log is None or f"/applications/{name}/" not in listed:
            raise ConfigError(f"there is no page of an application {name!r} here")
        with self._lock:
            if name not in self._pages:
                if len(self._pages) >= _MOST_PAGES:
                    _close(*self._pages.pop(next(iter(self._pages))))
                folder = next(one for one in _folders_beside(self._own) if one.name == name)
                stores = open_stores(folder)
                served = self._page(stores, self._log)
                served.on_start()
                self._pages[name] = served, stores
            return self._pages[name]

    def close(self) -> None:
        """Close all pages."""
        with self._lock:
            while self._pages:
                _close(*self._pages.popitem()[1])


def _close(served: Served, stores: ApplicationStores) -> None:
    served.on_close()
    stores.close()


def _folders_beside(stores: ApplicationStores) -> list[Path]:
    """The folders with the states of other applications, beside that of this one."""
    storage = stores.commits.storage
    if not isinstance(storage, LocalStorage):
        return []
    own = storage.root.resolve()
    with suppress(OSError):
        found = [one for one in sorted(own.parent.parent.iterdir()) if (one / own.name / "manifests").is_dir()]
        return [one for one in found if one / own.name != own]
    return []


def _application_of(stores: ApplicationStores) -> tuple[str, str]:
    """An application's id, and where its topics are."""
    newest = stores.commits.newest()
    start = stores.commits.start_of(newest)
    if start is None or start.picture is None:
        return newest.application if start is None else start.application_id, ""
    return start.application_id, start.picture.log


def _told(health: HealthCheck) -> dict[str, Any]:
    """The health of an application, or the error that hides it."""
    try:
        found = health.look()
    except (PenstockError, OSError) as error:
        return {"status": "unknown", "error": str(error)}
    figures = {"commit": found.commit, "behind": found.behind, "age_ms": round(found.commit_age_seconds * 1000)}
    return {"status": found.status, "stalled_ms": round(found.stalled_seconds * 1000), **figures}
