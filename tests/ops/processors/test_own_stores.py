"""Stores of users' classes that processors have: of every shape, and of any class at all (KIP-892)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock import (
    ConfigError,
    Processor,
    Record,
    SessionKey,
    StateStore,
    StateStoreContext,
    Stores,
    StreamsBuilder,
    Topology,
    TopologyError,
    faults,
)
from penstock.errors import StoreError
from penstock.faults import POINTS, STORE_POINTS
from penstock.log.produce import produce
from penstock.testing import TopologyTestDriver
from support.own_stores import DictStore, Supplier, TransactionalDictStore
from support.own_timed_stores import TimedSupplier, kind_of
from support.world import World

pytestmark = [pytest.mark.filterwarnings("ignore::DeprecationWarning"), pytest.mark.kip("KS-20")]


def processed(builder: Any, step: Callable[[Any, Record], Any], *names: str) -> Topology:
    """A step with one store, which sends on what a function gives of the store and each record."""

    class Step(Processor):
        def init(self, context: Any) -> None:
            self.context, self.store = context, context.get_state_store("own")

        def process(self, record: Record) -> None:
            self.context.forward(record.with_value(str(step(self.store, record))))

    graph = StreamsBuilder()
    graph.add_state_store(builder)
    graph.stream("in", str, str).process(Step, "own", value=str).to("out")
    return graph.build()


def outputs(topology: Topology, *rows: tuple[str, str, int]) -> list[str]:
    with TopologyTestDriver(topology) as driver:
        driver.pipe_record_list("in", list(rows))
        return [record.value for record in driver.read_output("out")]


def windows(store: Any, record: Record) -> Any:
    store.put(record.key, record.value, record.timestamp // 10 * 10)
    return list(store.fetch(record.key, 0, 100))


def sessions(store: Any, record: Record) -> Any:
    store.put(SessionKey(record.key, 0, record.timestamp), record.value)
    return [(key.end, value) for key, value in store.fetch(record.key)]


def versions(store: Any, record: Record) -> Any:
    put = store.put(record.key, record.value, record.timestamp)
    return put, store.get(record.key).value, store.get(record.key, 5) and store.get(record.key, 5).value


BUILDERS: dict[str, Any] = {
    "window": (Stores.window_store_builder, windows, ["[(0, 'x')]", "[(0, 'x'), (10, 'y')]"]),
    "duplicates": (Stores.window_store_builder, windows, ["[(0, 'x')]", "[(0, 'x'), (10, 'y')]"]),
    "session": (Stores.session_store_builder, sessions, ["[(3, 'x')]", "[(3, 'x'), (14, 'y')]"]),
    "versions": (Stores.versioned_key_value_store_builder, versions, ["(-1, 'x', 'x')", "(-1, 'y', 'x')"]),
    "bytes": (Stores.versioned_key_value_store_builder, versions, ["(-1, 'x', 'x')", "(-1, 'y', 'x')"]),
}


@pytest.mark.parametrize("medium", ["memory", "flushed", "sqlite"])
@pytest.mark.parametrize("shape", BUILDERS)
def test_processors_read_and_write_users_stores_of_every_shape(shape, medium):
    build, step, found = BUILDERS[shape]
    supplier = TimedSupplier(medium, shape)
    topology = processed(build(supplier, str, str), step)
    with TopologyTestDriver(topology) as driver:
        driver.pipe_record_list("in", [("k", "x", 3), ("k", "y", 14)])
        assert [record.value for record in driver.read_output("out")] == found
        assert {key for key, *_ in supplier.made[-1].shown()} == {b"k"}
        assert len(supplier.made[-1].shown()) == 2


def test_a_builder_refuses_a_supplier_of_another_shape_or_one_that_does_not_tell_its_times():
    class Silent:
        name = "own"

        def get(self) -> Any:
            return kind_of("memory", "window")("own")

    with pytest.raises(ConfigError, match=r"session_store_builder takes a supplier.*penstock.SessionStore; got"):
        Stores.session_store_builder(TimedSupplier("memory", "window"), str, str)
    with pytest.raises(ConfigError, match=r"'own': its supplier Silent does not tell its retention_period. Give"):
        Stores.window_store_builder(Silent(), str, str)


# --- any class ----------------------------------------------------------------------------------------------------


class Notes(StateStore):
    """A list of lines, as no other store is one; it logs each of them."""

    persistent = False
    is_open = False
    logs = True

    def __init__(self, name: str = "own"):
        self.name = name
        self.lines: list[str] = []
        self.commits: list[int] = []

    def init(self, context: Any, root: Any) -> None:
        self.is_open, self.context = True, context
        if self.logs:
            context.register(root, self.restore)

    def restore(self, key: bytes, value: bytes | None) -> None:
        number = int(key)
        self.lines[number:] = [] if value is None else [value.decode()]

    def note(self, line: str) -> int:
        if self.logs:
            self.context.log_change(self, b"%06d" % len(self.lines), line.encode())
        self.lines.append(line)
        return len(self.lines)

    def commit(self, changelog_offsets: Any) -> None:
        self.commits += changelog_offsets.values()

    def close(self) -> None:
        self.is_open = False


class NotesSupplier:
    name = "own"

    def __init__(self) -> None:
        self.made: list[Notes] = []

    def get(self) -> Notes:
        self.made.append(Notes())
        return self.made[-1]


class NotesBuilder:
    """As Kafka Streams' ``StoreBuilder`` in Python's spelling."""

    name = "own"

    def build(self) -> Notes:
        return Notes()


@pytest.mark.kip("892-01")
@pytest.mark.parametrize("given", [NotesSupplier, NotesBuilder])
def test_a_processor_gets_a_store_of_any_class_as_it_is(given):
    topology = processed(given(), lambda store, record: store.note(record.value))
    assert outputs(topology, ("k", "x", 3), ("k", "y", 14)) == ["1", "2"]
    with TopologyTestDriver(topology) as driver:
        driver.pipe_input("in", "k", "x", 3)
        store = driver.get_state_store("own")
        assert (type(store), store.lines, store.is_open) == (Notes, ["x"], True)


def test_the_driver_gives_a_store_that_was_added_as_it_is_by_the_name_of_its_kind():
    class Counts(DictStore):
        def commit(self, changelog_offsets: Any) -> None: ...

    def count(store: Counts, record: Record) -> int:
        store.put(record.key.encode(), b"%d" % (int(store.get(record.key.encode()) or b"0") + 1))
        return int(store.rows[record.key.encode()])

    with TopologyTestDriver(processed(Supplier(Counts), count)) as driver:
        driver.pipe_record_list("in", [("k", "x", 3), ("k", "y", 14)])
        found = driver.get_key_value_store("own")
        assert (type(found), found.get(b"k"), found is driver.get_state_store("own")) == (Counts, b"2", True)
        with pytest.raises(ConfigError, match="'own' is a Counts, no window store; get_state_store gives the object"):
            driver.get_window_store("own")
    with TopologyTestDriver(processed(Supplier(TransactionalDictStore), lambda store, record: 1)) as driver:
        assert driver.get_key_value_store("own").get(b"k") is None


@pytest.mark.kip("892-08")
def test_what_a_store_of_any_class_logs_is_restored_and_undone_with_the_commit(tmp_path):
    supplier, failing = NotesSupplier(), ["y"]

    def note(store: Notes, record: Record) -> int:
        number = store.note(record.value)
        if failing and record.value == failing[0]:
            raise ValueError(failing.pop())
        return number

    world = World(tmp_path, processed(supplier, note), chunk_records=1, statestore_uncommitted_max_records=1)
    produce([("k", value, n) for n, value in enumerate("xyz")], "in", str, str, log=world.log, partitions=1)
    application = world.start()
    with pytest.raises(Exception, match="y"):
        application.run_until()
    application.close()
    assert world.output() == [("k", "1")]
    application = world.start()  # an object of its own, which has nothing
    application.run_until()
    assert supplier.made[-1].lines == ["x", "y", "z"]
    assert supplier.made[-1].commits == sorted(supplier.made[-1].commits) != []
    application.close()
    assert world.output() == [("k", "1"), ("k", "2"), ("k", "3")]


class Kept(Notes):
    """The same in a file that is written at once, without transactions."""

    persistent = True

    def init(self, context: Any, root: Any) -> None:
        self.file = context.state_dir / "own.lines"
        self.lines = self.file.read_text().split() if self.file.exists() else []
        super().init(context, root)

    def restore(self, key: bytes, value: bytes | None) -> None:
        super().restore(key, value)
        self.file.write_text(" ".join(self.lines))

    def note(self, line: str) -> int:
        number = super().note(line)
        self.file.write_text(" ".join(self.lines))
        return number


class Killed(BaseException):
    """What a test has happen at a crash point."""


def killed_at(world: World, point: str) -> None:
    """Start a program, and kill it when it comes to a point for the second time."""
    hits = iter([point])

    def listen(name: str) -> None:
        if name == point and next(hits, None) is None:
            raise Killed

    faults.listener, application = listen, None
    try:
        application = world.start()
        application.run_until()
        raise AssertionError(f"it came to its end without {point}")
    except BaseException as error:
        if next(hits, None) is not None or isinstance(error, AssertionError):
            raise
    finally:
        faults.listener = None
    for task in application.host.tasks() if application else ():
        task.state.abandon()


@pytest.mark.kip("892-13", "892-08")
def test_a_persistent_store_of_any_class_has_nothing_of_killed_attempts(tmp_path):
    """Without transactions the class has written its line before the commit; the next start takes it back."""
    supplier = Supplier(Kept)
    topology = processed(supplier, lambda store, record: store.note(record.value))
    world = World(tmp_path, topology, chunk_records=1, statestore_uncommitted_max_records=1)
    lines = [f"line-{n}" for n in range(80)]
    produce([("k", line, n) for n, line in enumerate(lines)], "in", str, str, log=world.log, partitions=1)
    for point in (*POINTS, *STORE_POINTS):
        killed_at(world, point)
    application = world.start()
    application.run_until()
    assert supplier.made[-1].lines == lines
    assert [int(value) for _, value in world.output()] == [*range(1, len(lines) + 1)]
    application.close()


def test_a_store_whose_changes_penstock_logs_must_not_log_them_too():
    context = StateStoreContext("app", "0_0", Path("stores"))
    with pytest.raises(StoreError, match="but Penstock does that for it"):
        context.log_change(TimedSupplier("memory", "window").get(), b"k", b"v")


def test_what_is_no_store_and_no_builder_is_refused():
    class Named:
        name = "own"

    with pytest.raises(TopologyError, match=r"give an object with a name whose build\(\) or get\(\)"):
        StreamsBuilder().add_state_store(Named())
    topology = processed(type("Three", (), {"name": "own", "get": lambda self: 3})(), lambda store, record: 1)
    with pytest.raises(ConfigError, match=r"gave 3. It must be of a class that extends penstock.StateStore"):
        TopologyTestDriver(topology)
