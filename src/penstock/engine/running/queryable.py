"""Reading the stores of a running application."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from penstock.engine.commit.coordinator import Coordinator
from penstock.engine.commit.current import CurrentCommits
from penstock.engine.operate.restores import LagInfo, Restores
from penstock.engine.shared.key_metadata import Headers, key_metadata
from penstock.engine.shared.layout import TaskId
from penstock.engine.shared.places import KeyQueryMetadata
from penstock.engine.shared.stores import stores_of
from penstock.engine.task.live import LiveTasks
from penstock.plan.sinks import Partitioner
from penstock.plan.topology import Topology
from penstock.settings import Settings
from penstock.state.interface import IsolationLevel
from penstock.usage.java_names import KafkaNames

if TYPE_CHECKING:
    from penstock.query.answers import StateQueryResult
    from penstock.query.application import ApplicationStores
    from penstock.query.typed import StateQueryRequest


class QueryableStreams(KafkaNames):
    """The part of ``Streams`` that reads stores."""

    topology: Topology
    settings: Settings
    _coordinator: Coordinator
    _live: LiveTasks
    _opening: threading.Lock
    _restores: Restores
    _stores: ApplicationStores | None

    def _check_open(self, asked: str, is_open: bool | None = None) -> None:
        raise NotImplementedError

    def query_metadata_for_key(
        self, store: str, key: Any, partitioner: Partitioner | None = None, headers: Headers = ()
    ) -> KeyQueryMetadata:
        """Return where the rows of a key are. Give ``partitioner`` and ``headers`` if Kafka's partitioner did not
        choose the partition."""
        manifest, layout = self._coordinator.manifest, self._coordinator.layout
        return key_metadata(self.topology, layout, manifest.places, store, key, partitioner, headers)

    def all_local_store_partition_lags(self) -> dict[str, dict[int, LagInfo]]:
        """Return how far each store is behind its changelog, by store and partition (KIP-535).

        Positions are numbers of commits. A task that runs is at the newest one; one that is being restored is behind.

        Raises:
            ConfigError: the application was stopped.
        """
        self._check_open("all_local_store_partition_lags")
        coordinator, topology = self._coordinator, self.topology
        commit, tasks = coordinator.manifest.commit, coordinator.layout.tasks
        found: dict[str, dict[int, LagInfo]] = {}
        for sub in topology.sub_topologies:
            for store in stores_of(sub, topology.facts):
                for partition in range(tasks.get(sub.id, 0)):
                    at = self._restores.reached(str(TaskId(sub.id, partition)), store.name)
                    lag = LagInfo(commit if at is None else min(at, commit), commit)
                    found.setdefault(store.name, {})[partition] = lag
        return found

    def store(self, name: str, partition: int | None = None) -> Any:
        """Return a state store for reading, from any thread. Each call reads the newest commit; ``snapshot()`` stays at
        one commit.

        With the isolation level ``READ_UNCOMMITTED`` of the application or of ``read_only(level)``, calls also return
        uncommitted writes (KIP-892); ``snapshot()`` never does.

        Args:
            name: the store's name.
            partition: the partition to read; by default all partitions.

        The first call for a store makes a copy of it, which follows each commit until the application stops.

        Raises:
            ConfigError: there is no such store, or the application was stopped.
        """
        self._check_open("store")
        view = self.stores().view(name)
        return view if partition is None else view.of_partition(partition)

    def query_state(self, request: StateQueryRequest) -> StateQueryResult:
        """Return a store's answer to a typed query, partition by partition (KIP-796).

        Raises:
            ConfigError: there is no such store, or the application was stopped.
        """
        return self.stores().query(request)

    def stores(self) -> ApplicationStores:
        """All stores of the application, for reading.

        Raises:
            ConfigError: the application was stopped.
        """
        self._check_open("stores")
        from penstock.query.application import ApplicationStores
        from penstock.query.commits import OwnCommits

        with self._opening:
            if self._stores is None:
                level = self.settings.queries_see
                commits = OwnCommits(CurrentCommits(lambda: self._coordinator))
                shared = commits, self.settings.block_cache_bytes, self._live
                self._stores = ApplicationStores(*shared, IsolationLevel(level))
            return self._stores
