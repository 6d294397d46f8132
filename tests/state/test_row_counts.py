"""How many rows a store has, in its figures: as many as whoever reads it sees."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock import Materialized, SessionWindows, SlidingWindows, StreamsBuilder, TimeWindows, Topology
from penstock.engine.local import LocalApplication
from penstock.log.produce import produce
from penstock.query.rows import rows_of
from penstock.testing import TopologyTestDriver
from penstock.watch.figures import Application
from penstock.watch.prometheus import exposition
from support.every_store import KEYS, THIRDS, Program, every_kind_of_store
from support.own_stores import DictStore, Supplier
from support.topologies import EXAMPLES, topology_of
from support.world import World

KEEPING = [name for name in EXAMPLES if topology_of(name).facts.named()]


@pytest.mark.parametrize("name", KEEPING)
def test_a_store_in_memory_has_as_many_rows_as_are_read(name: str) -> None:
    """With updates in disorder, and a jump of stream time at which some of them expire."""
    choose = random.Random(name)
    driver = TopologyTestDriver(topology_of(name), statestore_cache_max_bytes=0)
    topics = [topic for topic in driver.topology.source_topics if topic not in driver.topology.sink_topics]
    for number in range(45):
        time = number + choose.randrange(8) + (200_000 if number > 40 else 0)
        driver.pipe_input(choose.choice(topics), choose.choice("abcd"), choose.choice([1, 2, 3, None]), time)
        if number in (20, 40, 44):
            stores = [(name, store) for _, state, _ in driver._tasks for name, store in state.stores.items()]
            counted = {store: one.approximate_rows() for store, one in stores}  # a global one is the same everywhere
            read = {store: len(list(driver.store(store).all())) for store in driver.topology.facts.named()}
            assert {store: counted[store] for store in read} == read


def test_rows_that_are_rewritten_often_and_lie_on_disk_only_are_counted_one_by_one(tmp_path: Path) -> None:
    world = World(tmp_path, hot_max_bytes=1, flush_commits=1, flush_rows=1)
    world.produce("a")
    application = world.start()
    for turn in range(12):
        world.produce(*(f"k{n}" for n in range(10 + 20 * (turn // 4))))
        application.run_until()
    [store] = application.host.tasks()[0].state.stores.values()
    rows, read = store.approximate_rows(), len(list(store.pieces()[0].scan()))
    application.close()
    assert rows == read == 51


def test_rows_of_windows_that_have_partly_expired_and_lie_on_disk_only_are_counted_one_by_one(tmp_path: Path) -> None:
    builder = StreamsBuilder()
    windows = TimeWindows.of_size_and_grace(10, 20)
    builder.stream("in", value=str).group_by_key().windowed_by(windows).count("windows").to_stream().to("out", key=Any)
    world = World(tmp_path, builder.build(), hot_max_bytes=1, flush_commits=1, flush_rows=1)
    for first in range(0, 90, 15):
        times = [first + 5 * (n % 4) for n in range(30)]
        produce([(f"k{n % 8}", "x", time) for n, time in enumerate(times)], "in", value=str, log=world.log)
        application = world.start()
        application.run_until()
        [store] = application.host.tasks()[0].state.stores.values()
        rows, read = store.approximate_rows(), len(list(rows_of(application.stores().view("windows"))))
        application.close()
        assert rows == read


class InMemory(DictStore):
    def commit(self, changelog_offsets: Any) -> None: ...


class Counting(InMemory):
    """It tells how many rows it has, without reading them."""

    def approximate_num_entries(self) -> int:
        return len(self.rows)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(("kind", "shown"), [(Counting, {"counts": 3}), (InMemory, {})])
def test_rows_of_a_store_of_ones_own_are_shown_if_its_class_counts_them(
    tmp_path: Path, kind: type[DictStore], shown: dict[str, int]
) -> None:
    builder = StreamsBuilder()
    kept = Materialized.as_(Supplier(kind, "counts")).with_caching_disabled()
    builder.stream("in", value=str).group_by_key().count(materialized=kept).to_stream().to("out")
    world = World(tmp_path, builder.build())
    for keys in ("ab", "c", "a"):  # it has the rows of a commit once that is made
        world.produce(*keys)
        application = world.start()
        application.run_until()
        found = shown_of(application)["Kafka's metric"]
        application.close()
    assert found == shown


def test_rows_on_disk_only_are_counted_about(tmp_path: Path) -> None:
    program = Program(tmp_path, every_kind_of_store(), 2)
    for first in (0, 300):  # the second time most rows are on disk only
        program.produce(*((KEYS[(7 * i) % 12], (5 * i) % 9, 2 * i) for i in range(first, first + 300 - first // 2)))
        application = LocalApplication(
            program.topology, "app", program.settings, program.log, program.storage, program.folder / "tasks"
        )
        application.run_until()
        stores = application.stores()
        tasks = application.host._tasks.values()
        for name in program.topology.facts.named():
            rows = sum(task.state.stores[name].approximate_rows() for task in tasks if name in task.state.stores)
            read = len(list(rows_of(stores.view(name))))
            if first:
                assert read / 3 - 5 <= rows <= 3 * read + 5, name
            else:
                assert rows == read, name
        application.close()


def shown_of(application: LocalApplication) -> dict[str, dict[str, int]]:
    """The rows of each store as users see them: by where they are shown, and by store."""
    looked = Application(application.stores())
    metrics = list(looked.metrics().items())
    told = exposition(looked)[0].decode()
    shown: dict[str, dict[str, int]] = {
        "page": {store: sizes["rows"] for store, sizes in looked.figures()["stores"].items()},
        "metric": Counter(),
        "Kafka's metric": Counter(),
        "Prometheus": Counter(),
        "Prometheus, of Kafka's": Counter(),
    }
    for metric, figure in metrics:
        if metric.name == "estimate-num-keys-current":
            shown["metric"][metric.node] += int(figure)
        elif metric.name == "estimate-num-keys" and metric.scope == "state":
            shown["Kafka's metric"][metric.node] += int(figure)
    for name, label, store, figure in re.findall(
        r'^penstock_(state_)?estimate_num_keys\{.*?\b(node|store)="(.+?)".*\} (\S+)$', told, re.MULTILINE
    ):
        assert label == ("store" if name else "node")
        shown["Prometheus, of Kafka's" if name else "Prometheus"][store] += int(float(figure))
    return shown


def read_of(application: LocalApplication) -> dict[str, int]:
    """How many rows a scan of each store finds."""
    stores, names = application.stores(), application.coordinator.opened.topology.facts.named()
    return {name: len(list(rows_of(stores.view(name)))) for name in names}


def kept_in_memory() -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=int)
    grouped = stream.group_by_key()
    grouped.count(Materialized.as_("counts").in_memory()).to_stream().to("counts")
    windows = grouped.windowed_by(TimeWindows.of_size_and_grace(50, 10))
    windows.count(Materialized.as_("windows").in_memory()).to_stream().to("windows")
    sessions = grouped.windowed_by(SessionWindows.of_inactivity_gap_and_grace(30, 20))
    sessions.count(Materialized.as_("sessions").in_memory()).to_stream().to("sessions")
    sliding = grouped.windowed_by(SlidingWindows.of_time_difference_and_grace(20, 20))
    sliding.count(Materialized.as_("sliding").in_memory()).to_stream().to("sliding")
    versions = Materialized.as_versioned("versions", history_retention=400, segment_interval=50).in_memory()
    stream.to_table(materialized=versions).to_stream().to("versions")
    return builder.build()


def test_rows_of_global_tables_are_counted_once_and_not_by_each_task(tmp_path: Path) -> None:
    builder = StreamsBuilder()
    users = builder.global_table("users", key=str, value=int, store="users")
    stream = builder.stream("in", key=str, value=int)
    stream.join(users, max, key_selector=lambda key, value: key).to("out")
    stream.repartition("again").join(users, max, key_selector=lambda key, value: key).to("later")
    program = Program(tmp_path, builder.build(), 3)
    program.produce(*((key, 1, 1) for key in KEYS))
    application = program.start()
    application.run_until()
    read, shown = read_of(application), shown_of(application)
    application.close()
    assert read == {"users": 12}
    assert shown == dict.fromkeys(shown, read)


@pytest.mark.parametrize("topology", [every_kind_of_store, kept_in_memory])
def test_the_page_the_metrics_and_prometheus_show_as_many_rows_as_are_read(
    tmp_path: Path, topology: Callable[[], Topology]
) -> None:
    """Also of rows that an earlier program has left on disk: these are exact until keys that RocksDB has are written to
    it once more, which it counts again, or are deleted. Stores are measured once a second at most."""
    pytest.importorskip("prometheus_client", reason="comes with penstock-streams[prometheus]")
    program = Program(tmp_path, topology(), 2)
    for third in THIRDS:
        program.produce(*third)
        application = program.start()
        application.run_until()
        read = read_of(application)
        shown = shown_of(application)
        application.close()
        assert shown == dict.fromkeys(shown, read)
        assert sum(read.values()) > 20
