"""All stores of one application, for reading: from the process that runs it, or from any other."""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path

from penstock.engine.task.live import LiveTasks
from penstock.engine.task.questions import TasksElsewhere
from penstock.errors import ConfigError, PenstockError
from penstock.files.locations import checkpoint_place, scheme_of
from penstock.query.answers import StateQueryResult, answered
from penstock.query.commits import Commits, StoredCommits, StoreShape
from penstock.query.committed import CommittedStore
from penstock.query.live import UncommittedStore, has_live_reads
from penstock.query.stores import AnyView, view_of
from penstock.query.typed import StateQueryRequest
from penstock.serdes import Serde, of
from penstock.settings import Settings, StateSettings
from penstock.state.interface import IsolationLevel
from penstock.storage.opening import open_storage
from penstock.values.durations import Duration, to_ms


class ApplicationStores:
    """All stores of an application. There is one copy of each requested store, which all callers share.

    Args:
        live: asks the tasks of a running application, for queries that see uncommitted writes, too; None if nobody can.
        isolation_level: the level of queries that name none; by default uncommitted writes are visible, too, if this
            process's own tasks can be asked.

    >>> def rows(streams):
    ...     stores = streams.stores()
    ...     return {name: stores.view(name).to_arrow().num_rows for name in stores.shapes()}
    """

    def __init__(
        self,
        commits: Commits,
        cache_bytes: int = StateSettings.block_cache_bytes,
        live: LiveTasks | TasksElsewhere | None = None,
        isolation_level: IsolationLevel | None = None,
    ):
        self.commits = commits
        usual = IsolationLevel.READ_UNCOMMITTED if isinstance(live, LiveTasks) else IsolationLevel.READ_COMMITTED
        self.isolation_level = isolation_level or usual
        self._live = live
        self._cache_bytes = cache_bytes
        self._lock = threading.Lock()
        self._stores: dict[str, CommittedStore] = {}

    def shapes(self) -> dict[str, StoreShape]:
        """The shapes of the stores, by name."""
        return self.commits.shapes(self.commits.newest())

    def store(self, name: str) -> CommittedStore:
        """The copy of a store; raises ``ConfigError`` if there is no such store."""
        with self._lock:
            if name not in self._stores:
                self._stores[name] = CommittedStore(self.commits, name, self._cache_bytes)
            return self._stores[name]

    def is_here(self, name: str) -> bool:
        """True if there is a copy of a store that can be read without waiting for it."""
        store = self._stores.get(name)
        return store is not None and store.is_here

    def view(
        self, name: str, isolation_level: IsolationLevel | None = None, shape: StoreShape | None = None
    ) -> AnyView:
        """A store, for reading.

        Args:
            isolation_level: whether uncommitted writes are shown; by default as the application says.
            shape: the types of keys and values, if they differ from the recorded ones.

        Raises:
            ConfigError: there is no such store, or nobody can be asked for what is not committed.
        """
        store = self.store(name)
        level = isolation_level or self.isolation_level
        if level is IsolationLevel.READ_UNCOMMITTED and has_live_reads(store.shape):
            if self._live is None or not self._live.is_there:
                raise cannot_ask(name)
            view = view_of(UncommittedStore(store, self._live), shape or store.shape)
        else:
            store.now()
            view = view_of(store, shape or store.shape)
        view.at_level(level, lambda other: self.view(name, other, shape))
        return view

    def catch_up(self) -> None:
        """Apply new commits to the stores that were asked for.

        If a store cannot be read now, the next read of it raises.
        """
        with self._lock:
            stores = list(self._stores.values())
        for store in stores:
            with suppress(PenstockError, OSError):
                store.now()

    def query(self, request: StateQueryRequest) -> StateQueryResult:
        """Answer a request with the store that it names; raises ``ConfigError`` if there is no such store."""
        return answered(self.view(request.store, request.isolation_level), request)

    def close(self) -> None:
        """Remove all copies."""
        with self._lock:
            for store in self._stores.values():
                store.close()
            self._stores.clear()


def cannot_ask(name: str) -> ConfigError:
    """The error of a query for uncommitted writes that no running program is there to answer."""
    return ConfigError(
        f"what is written into the store {name!r} and not committed is in the tasks of the running application, and "
        "none can be asked from here: it does not run, or on another machine or as another user. There, use "
        "open_store, streams.store(...) or its HTTP server. Committed rows can be read from here, with READ_COMMITTED"
    )


def open_stores(application: Path | str, max_age: Duration = 0) -> ApplicationStores:
    """All stores of an application, by its id or its checkpoint; see :func:`penstock.open_store`."""
    storage = open_storage(checkpoint_of(application))
    return ApplicationStores(StoredCommits(storage, to_ms(max_age, "max_age") / 1000), live=TasksElsewhere(storage))


def checkpoint_of(application: Path | str) -> str:
    """The place of an application's commits, by its id or its checkpoint. The setting ``checkpoint`` takes precedence
    over the folder of its state, which may have an earlier checkpoint: a start would continue from that of the setting.

    Raises:
        ConfigError: neither exists.
    """
    if not isinstance(application, str | Path) or not str(application):
        raise ConfigError(f"application is an application's id, or the place of its checkpoint; got {application!r}")
    if scheme_of(application) is not None:
        return checkpoint_place(application, "application")
    settings = Settings.load()
    state = (settings.state_dir or Path(".penstock") / application) / "checkpoint"
    tried = [Path(application), Path(application) / "checkpoint", *([] if settings.checkpoint else [state])]
    found = next((folder for folder in tried if (folder / "manifests").is_dir()), None)
    if found is not None:
        return str(found)
    if settings.checkpoint is not None:
        return settings.checkpoint
    raise ConfigError(
        f"found no commit of an application {str(application)!r} in {state.parent.absolute()}. Give the application's "
        "id, in the folder where it runs, or the place of its checkpoint"
    )


def open_view(
    application: Path | str,
    name: str,
    key: Serde | type | None,
    value: Serde | type | None,
    max_age: Duration,
    isolation_level: IsolationLevel | None,
) -> AnyView:
    """See :func:`penstock.open_store`."""
    stores = open_stores(application, max_age)
    try:
        store = stores.store(name)
        store.now()
        shape = store.shape
        types = shape.key if key is None else of(key, "key"), shape.value if value is None else of(value, "value")
        typed = StoreShape(name, shape.format, *types)
        view = stores.view(name, isolation_level, typed)
    except BaseException:
        stores.close()
        raise
    view.on_close(stores.close)
    return view
