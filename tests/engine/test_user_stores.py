"""Stores that users bring, in whole programs: killed at every step, their outputs and rows are the undisturbed ones."""

from __future__ import annotations

import os
import random
import warnings
from collections.abc import Iterator
from pathlib import Path
from threading import get_ident
from typing import Any

import pytest

from penstock import Materialized, Processor, Record, Stores, StreamsBuilder, TimeWindows, Topology, faults
from penstock.errors import StoreError
from penstock.faults import POINTS, STORE_POINTS
from penstock.log.produce import produce
from penstock.testing import TopologyTestDriver
from support.own_stores import DictStore, OldStore, SqliteStore, Supplier, TransactionalDictStore
from support.world import World

pytestmark = [pytest.mark.filterwarnings("ignore::DeprecationWarning"), pytest.mark.slow]

WORDS = [(f"k{n * n % 11}", "x", n) for n in range(230)]


class InMemory(DictStore):
    def commit(self, changelog_offsets: Any) -> None: ...


KINDS = [OldStore, TransactionalDictStore, SqliteStore, InMemory]
"""Of before KIP-892, with transactions, with offsets too, and in memory alone."""


class Killed(BaseException):
    """What a test has happen at a crash point."""


def counts_in(supplier: Supplier) -> Topology:
    builder = StreamsBuilder()
    kept = Materialized.as_(supplier).with_caching_disabled()
    builder.stream("in", value=str).group_by_key().count(materialized=kept).to_stream().to("out")
    return builder.build()


def world_in(folder: Path, supplier: Supplier, **settings: Any) -> World:
    """Some hundred commits to make."""
    limits = {"chunk_records": 3, "statestore_uncommitted_max_records": 3, **settings}
    world = World(folder, counts_in(supplier), **limits)
    produce(WORDS, "in", value=str, log=world.log, partitions=1)
    return world


@pytest.fixture(autouse=True)
def _not_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    yield
    faults.listener = None


def killed_at(world: World, point: str, count: int = 2) -> bool:
    """Start a program and kill it when it comes to a point for the so-many-th time; False when it gets to its end."""
    hits = iter(range(count - 1))

    def listen(name: str) -> None:
        if name == point and next(hits, None) is None:
            faults.listener = None
            raise Killed

    application, faults.listener = None, listen
    try:
        application = world.start()
        application.run_until()
    except BaseException as error:
        if faults.listener is not None:
            raise error
    for task in application.host.tasks() if application else ():
        task.state.abandon()
    return faults.listener is None


def rows_of(supplier: Supplier) -> dict[bytes, bytes]:
    return dict(supplier.made[-1].all())


@pytest.mark.kip("892-08")
@pytest.mark.kip("892-13")
@pytest.mark.parametrize(
    ("kind", "settings"),
    [*((kind, {}) for kind in KINDS), (SqliteStore, {"hot_max_bytes": 1})],
)
def test_programs_killed_at_every_step_leave_the_outputs_and_rows_of_an_undisturbed_one(kind, settings, tmp_path):
    quiet, disturbed = Supplier(kind), Supplier(kind)
    undisturbed = world_in(tmp_path / "undisturbed", quiet)
    program = undisturbed.start()
    program.run_until()
    world = world_in(tmp_path / "disturbed", disturbed, **settings)
    for point in (*POINTS, *STORE_POINTS):
        assert killed_at(world, point), f"the program got to its end without coming to {point} twice"
    application = world.start()
    application.run_until()
    assert world.output() == undisturbed.output()
    assert rows_of(disturbed) == rows_of(quiet) != {}
    assert world.counts("own") == undisturbed.counts("own") == sorted(dict(undisturbed.output()).items())
    application.close()
    program.close()


class OffsetsApart(OldStore):
    """One that keeps its offsets, but writes rows before it is told of them."""

    commit_file = "own.offset"

    def manages_offsets(self) -> bool:
        return True

    def get_committed_offset(self, topic_partition: Any) -> int | None:
        path = self.path.with_name(self.commit_file)
        return int(path.read_text()) if path.exists() else None

    def commit(self, changelog_offsets: Any) -> None:
        for offset in changelog_offsets.values():
            self.path.with_name(self.commit_file).write_text(str(offset))


@pytest.mark.kip("892-08")
@pytest.mark.kip("892-13")
@pytest.mark.parametrize("point", STORE_POINTS)
@pytest.mark.parametrize("kind", [*KINDS, OffsetsApart])
def test_a_program_that_is_killed_in_its_first_commit_goes_on(kind, point, tmp_path):
    """The store has rows then, and nothing says yet how far it is."""
    supplier = Supplier(kind)
    world = world_in(tmp_path, supplier)
    for _ in range(2):
        assert killed_at(world, point, count=1)
    application = world.start()
    application.run_until()
    assert {key: value[-8:] for key, value in rows_of(supplier).items()} == {
        key.encode(): count.to_bytes(8, "big") for key, count in dict(world.output()).items()
    }
    application.close()


@pytest.mark.kip("892-12")
def test_a_users_store_has_the_newest_commit_as_soon_as_nothing_more_is_to_be_done(tmp_path):
    supplier = Supplier(SqliteStore)
    world = World(tmp_path, counts_in(supplier))
    world.produce("a", "b", "a")
    application = world.start()
    application.run_until()
    assert {key: value[8:] for key, value in rows_of(supplier).items()} == {
        b"a": bytes(7) + b"\2",
        b"b": bytes(7) + b"\1",
    }
    application.close()
    application = world.start()  # without any work, a start brings it up
    for path in tmp_path.rglob("own.db"):
        path.unlink()
    application.run_until()
    assert len(rows_of(supplier)) == 2
    application.close()


@pytest.mark.kip("892-08")
def test_a_commit_that_a_users_store_fails_in_stops_the_program_and_is_made_up_for(tmp_path):
    class Moody(InMemory):
        fails = True

        def commit(self, changelog_offsets: Any) -> None:
            if self.fails:
                raise OSError("no room")

    supplier = Supplier(Moody)
    world = World(tmp_path, counts_in(supplier))
    world.produce("a", "a")
    application = world.start()
    with pytest.raises(StoreError, match=r"'own' .*Moody\) failed in commit at .*OSError: no room. Committed data is"):
        application.run_until()
    application.close()
    Moody.fails = False
    world.produce("a")
    application = world.start()
    application.run_until()
    assert world.output() == [("a", 1), ("a", 2), ("a", 3)]
    application.close()


@pytest.mark.kip("892-06")
@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
def test_the_context_of_a_store_says_where_it_is_and_how_its_transactions_are_isolated(tmp_path, guarantee):
    contexts = []

    class Told(InMemory):
        def init(self, context: Any, root: Any) -> None:
            super().init(context, root)
            contexts.append((context.application_id, context.task_id, context.partition, context.isolation_level.value))
            assert context.state_dir.is_dir()
            assert context.app_configs["flush_commits"] == 2
            assert "checkpoint" not in context.app_configs  # whose URL may hold keys

    world = World(tmp_path, counts_in(Supplier(Told)), processing_guarantee=guarantee)
    world.run("a", "b")
    level = "read_committed" if guarantee == "exactly_once" else "read_uncommitted"
    assert contexts == [("app", "0_0", 0, level)]


@pytest.mark.kip("892-01")
def test_a_topology_with_an_old_store_warns_when_it_is_made_to_run():
    class Old(OldStore):
        def flush(self) -> None:
            super().flush()

    with pytest.warns(DeprecationWarning, match=r"Old\.flush\(\) is deprecated") as found:
        TopologyTestDriver(counts_in(Supplier(Old))).close()
    assert found[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TopologyTestDriver(counts_in(Supplier(Old))).close()


@pytest.mark.parametrize("kind", KINDS)
def test_processors_read_and_write_a_users_store(kind):
    class Counter(Processor):
        def init(self, context):
            self.context, self.store = context, context.get_state_store("own")

        def process(self, record):
            self.store.put(record.key, (self.store.get(record.key) or 0) + 1)
            self.context.forward(record.with_value(self.store.get(record.key)))

    supplier = Supplier(kind)
    builder = StreamsBuilder()
    builder.add_state_store(Stores.key_value_store_builder(supplier, str, int))
    builder.stream("in", value=str).process(Counter, "own").to("out", value=int)
    with TopologyTestDriver(builder.build()) as driver:
        for time, key in enumerate("aba"):
            driver.pipe_input("in", key, "x", time)
        found = [Record("a", 1, 0), Record("b", 1, 1), Record("a", 2, 2)]
        assert driver.read_output("out") == found
        assert rows_of(supplier) == {b"a": bytes(7) + b"\2", b"b": bytes(7) + b"\1"}


# --- as other stores ----------------------------------------------------------------------------------------------


def joined(kind: Any) -> Topology:
    """Tables of every making in stores of one kind, looked up, joined and sent on."""

    def kept(name: str) -> Materialized:
        return Materialized.as_(name if kind is None else Supplier(kind, name))

    builder = StreamsBuilder()
    words = builder.stream("in", str, str)
    people = builder.table("people", str, str, materialized=kept("people"))
    rates = builder.global_table("rates", str, str, materialized=kept("rates"))
    longest = words.group_by_key().reduce(max, materialized=kept("longest"))
    longest.join(people, lambda a, b: f"{a}-{b}", materialized=kept("joined")).to_stream().to("joined-out")
    met = words.join(people, lambda a, b: f"{a}+{b}", value=str)
    met.join(rates, lambda a, b: f"{a}*{b}", key_selector=lambda k, v: k).to("looked-up")
    people.filter(lambda k, v: v != "b", materialized=kept("filtered")).to_stream().to("filtered-out")
    people.group_by(lambda k, v: (v, k)).count(materialized=kept("grouped")).to_stream().to("grouped-out")
    return builder.build()


def records() -> Iterator[tuple[str, str, str | None, int]]:
    dice = random.Random(5)
    for time in range(150):
        topic = dice.choice(["in", "in", "people", "rates"])
        value = None if topic != "in" and dice.random() < 0.3 else dice.choice("abcd")
        yield topic, dice.choice("xyz"), value, dice.randrange(time + 1)


@pytest.mark.parametrize("caching", [0, "1 MB"])
@pytest.mark.parametrize("kind", [SqliteStore, InMemory])
def test_tables_in_users_stores_give_what_they_give_in_those_of_the_engine(kind, caching, tmp_path):
    """Rows leave memory after each commit, so that the stores are asked."""
    found = []
    for each in (None, kind):
        limits = {"hot_max_bytes": 1, "statestore_uncommitted_max_records": 5, "statestore_cache_max_bytes": caching}
        world = World(tmp_path / str(each), joined(each), chunk_records=7, **limits)
        for topic in ("in", "people", "rates"):
            rows = [tuple(record) for to, *record in records() if to == topic]
            produce(rows, topic, key=str, value=str, log=world.log, partitions=1)
        application = world.start()
        application.run_until()
        application.close()
        stores = ("people", "longest", "joined", "filtered", "grouped")
        outputs = {topic: world.output(topic) for topic in world.topology.sink_topics}
        found.append((outputs, {name: world.counts(name) for name in stores}))
    assert found[0] == found[1]
    assert all(rows for part in found[0] for rows in part.values())


def test_a_users_store_is_opened_and_used_in_one_thread(tmp_path):
    threads = set()

    class Told(InMemory):
        def init(self, context: Any, root: Any) -> None:
            super().init(context, root)
            threads.add((context.task_id, get_ident()))

    world = World(tmp_path, counts_in(Supplier(Told)))
    produce([(f"k{n}", "x", n) for n in range(20)], "in", value=str, log=world.log, partitions=3)
    for _ in range(2):  # the second one restores
        application = world.start()
        application.run_until()
        application.close()
    assert threads == {(f"0_{partition}", get_ident()) for partition in range(3)}


@pytest.mark.kip("KS-03")
@pytest.mark.parametrize("kind", KINDS)
def test_results_of_windows_are_kept_in_a_users_store_under_keys_that_say_the_window(kind):
    """Which is the way that the refusal of a window store of one's own names."""
    builder, supplier = StreamsBuilder(), Supplier(kind)
    windows = TimeWindows.of_size_with_no_grace("10 ms")
    counts = builder.stream("in", value=str).group_by_key().windowed_by(windows).count("counts")
    by_window = counts.to_stream(lambda window, n: f"{window.key}@{window.start}", key=str)
    by_window.to_table(materialized=Materialized.as_(supplier)).to_stream().to("out")
    with TopologyTestDriver(builder.build(), statestore_cache_max_bytes=0) as driver:
        driver.pipe_record_list("in", [("a", "x", 1), ("b", "x", 2), ("a", "x", 3), ("a", "x", 11)])
        assert sorted(row[:2] for row in driver.store(supplier.name).all()) == [("a@0", 2), ("a@10", 1), ("b@0", 1)]
        assert [record[:2] for record in driver.read_output("out")] == [("a@0", 1), ("b@0", 1), ("a@0", 2), ("a@10", 1)]
