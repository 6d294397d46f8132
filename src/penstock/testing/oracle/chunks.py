"""A case through the engine in this process, its input cut at random.

The input is cut into micro-batches, these into commits, and these into chunks; limits on uncommitted writes force
commits in between, and now and then everything is let go and taken up again from disk. None of that may show.
"""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from penstock.engine.local import LocalApplication
from penstock.errors import PenstockError
from penstock.log.base import TopicInfo
from penstock.log.memory import MemoryLog
from penstock.plan import nodes
from penstock.plan.topology import Topology
from penstock.query.stores import KeyValueView, WindowView, view_of
from penstock.serdes import Serde
from penstock.settings import Settings
from penstock.storage import LocalStorage
from penstock.testing.oracle.build import Build
from penstock.testing.oracle.driver import settings_of
from penstock.testing.oracle.functions import Spec
from penstock.testing.oracle.outcome import Outcome, as_json, read, store_rows


def runner(seed: int) -> Any:
    """Runs cases with cuts that follow from a seed."""

    def run(case: Spec) -> Outcome:
        with tempfile.TemporaryDirectory() as folder:
            return _Run(case, random.Random(f"{seed}-{case['name']}"), Path(folder)).outcome

    return run


class _Run:
    def __init__(self, case: Spec, rng: random.Random, folder: Path):
        self.outcome = Outcome(dropped=[], reads=[], total_order=False)
        self._rng = rng
        self._folder = folder
        self._index_of_arrival: dict[int, int] = {}
        self._log = MemoryLog()
        try:
            self._build = Build(case)
            self._topology = self._build.topology()
        except PenstockError as error:
            self.outcome.error, self.outcome.error_when = error, "build"
            return
        for topic in self._topology.source_topics:
            self._log.create_topic(TopicInfo(topic, 1))
        self._settings = settings_of(case)
        self._application = self._open()
        try:
            self._feed(case["input"])
        except PenstockError as error:
            self.outcome.error, self.outcome.error_when = error, "run"
        self._collect()

    def _open(self) -> LocalApplication:
        rng = self._rng
        settings = Settings.load(
            environment={},
            chunk_records=rng.choice([1, 2, 3, 7, 1000]),
            statestore_uncommitted_max_records=rng.choice([-1, -1, 1, 2, 5]),
            flush_rows=rng.choice([1, 3, 1000]),
            flush_commits=rng.choice([1, 2, 50]),
            hot_max_bytes=rng.choice([1, 1 << 20]),
            **self._settings,
        )
        storage = LocalStorage(self._folder / "checkpoint")
        app = LocalApplication(
            self._topology, "oracle", settings, self._log, storage, self._folder / "state", by_arrival=True
        )
        app.host.on_new_task = _note_drops
        return app

    def _feed(self, entries: list[Spec]) -> None:
        waiting: list[tuple[int, Spec]] = []
        for index, entry in enumerate(entries):
            if "topic" in entry:
                waiting.append((index, entry))
                if self._rng.random() < 0.2 or self._is_circular():
                    self._process(waiting)
            else:
                self._process(waiting)
                if "read" in entry:
                    assert self.outcome.reads is not None
                    self.outcome.reads.append({"after": index, "result": read(self._view(entry["read"]), entry)})
        self._process(waiting)

    def _is_circular(self) -> bool:
        """Whether a repartition topic leads back into its own sub-topology. Then a record and what comes back of an
        earlier one are processed in the recorded order only if the one waits for the other."""
        return any(set(sub.sink_topics) & set(sub.source_topics) for sub in self._topology.sub_topologies)

    def _process(self, waiting: list[tuple[int, Spec]]) -> None:
        for index, entry in waiting:
            self._index_of_arrival[self._log.arrived] = index
            self._append(entry)
        waiting.clear()
        self._application.run_until()
        if self._rng.random() < 0.2:
            self._collect_drops()
            self._application.close()
            self._application = self._open()

    def _append(self, entry: Spec) -> None:
        key, value = self._build.inputs[entry["topic"]]
        with self._log.writer(entry["topic"], f"in-{len(self._index_of_arrival)}") as writer:
            writer.write(
                0, key.encode_all([entry["key"]]), value.encode_all([entry["value"]]), _int(entry["timestamp"])
            )
        self._log.append(entry["topic"], writer.segments())

    # --- what came of it -----------------------------------------------------------------------------------------

    def _collect(self) -> None:
        self._collect_drops()
        assert self.outcome.dropped is not None
        self.outcome.dropped_total = len(self.outcome.dropped)
        for topic, (key, value) in self._build.outputs.items():
            for records in self._log.read(topic, 0, 0, self._log.end_offsets(topic)[0]):
                rows = zip(_decoded(records.key, key), _decoded(records.value, value), records.timestamp, strict=True)
                for k, v, timestamp in rows:
                    row = {"topic": topic, "key": k, "value": v, "timestamp": int(timestamp)}
                    self.outcome.output.append(row)
        self.outcome.stores = {name: store_rows(self._view(name)) for name in self._build.stores}
        self._application.close()

    def _collect_drops(self) -> None:
        assert self.outcome.dropped is not None
        for task in self._application.host.tasks():
            positions, task.context.dropped_positions = task.context.dropped_positions or [], []
            for position in np.concatenate([*positions, np.zeros(0, np.int64)]).tolist():
                self.outcome.dropped.append(self._index_of_arrival.get(position, -1))

    def _view(self, name: str) -> KeyValueView | WindowView:
        self._application.settle()
        stores = [task.state.stores[name] for task in self._application.host.tasks() if name in task.state.stores]
        return store_view(self._topology, name, stores)


def store_view(topology: Topology, name: str, stores: list[Any]) -> KeyValueView | WindowView:
    """The view of a store's pieces, by its name."""
    node, spec = next((node, spec) for node, spec in topology.facts.stores.items() if spec.name == name)
    size = node.windows.size_ms if isinstance(node, nodes.WindowAggregate) else 0
    return view_of(stores, spec, size)


def _note_drops(task: Any) -> None:
    task.context.dropped_positions = []


def _decoded(data: Any, serde: Serde) -> list[Any]:
    return [as_json(value) for value in serde.decode_all(data)]


def _int(value: int) -> Any:
    return np.array([value], np.int64)
