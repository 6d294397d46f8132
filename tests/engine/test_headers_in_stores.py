"""Headers in stores across restarts, restores and changes of the program (KIP-1271)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock import (
    AggregationWithHeaders,
    ConfigError,
    JoinWindows,
    Processor,
    Record,
    SessionKey,
    Stores,
    StreamsBuilder,
    Topology,
    ValueAndTimestamp,
    ValueTimestampHeaders,
    open_store,
)
from penstock.engine.commit.opening import open_application
from penstock.engine.evolution.matching import Wishes, differences
from penstock.engine.shared.description import Kept
from penstock.log.consume import consume
from penstock.log.produce import produce
from penstock.query.committed import committed_store
from support.every_store import Program
from support.world import World

pytestmark = pytest.mark.kip("44-04")

ID = (("id", b"1"),)


class Keep(Processor):
    """Keeps records in each of its stores, in the form that it takes."""

    def __init__(self, with_headers: bool):
        self._with_headers = with_headers

    def init(self, context):
        self.rows, self.windows, self.sessions = map(context.get_state_store, ("rows", "windows", "sessions"))

    def process(self, record):
        value, timestamp, headers = record.value, record.timestamp, record.headers
        timed, aggregate = ValueAndTimestamp(value, timestamp), value
        if self._with_headers:
            timed, aggregate = ValueTimestampHeaders(*timed, headers), AggregationWithHeaders(value, headers)
        self.rows.put(record.key, timed)
        self.windows.put(record.key, timed, timestamp)
        self.sessions.put(SessionKey(record.key, timestamp, timestamp), aggregate)


def keeping(with_headers: bool = True) -> Topology:
    builder = StreamsBuilder()
    rows = Stores.persistent_timestamped_key_value_store("rows")
    windows = Stores.persistent_timestamped_window_store("windows", "1 day", 10)
    visits = Stores.persistent_session_store("sessions", "1 day")
    suffix = "_with_headers" if with_headers else ""
    builder.add_state_store(getattr(Stores, f"timestamped_key_value_store{suffix}_builder")(rows, str, int))
    builder.add_state_store(getattr(Stores, f"timestamped_window_store{suffix}_builder")(windows, str, int))
    made = Stores.session_store_with_headers_builder if with_headers else Stores.session_store_builder
    builder.add_state_store(made(visits, str, int))
    builder.stream("in", key=str, value=int).process(lambda: Keep(with_headers), "rows", "windows", "sessions")
    return builder.build()


def run(world: World, *records: Record, topology: Topology | None = None, **wishes: Any) -> None:
    produce(records, "in", str, int, world.log)
    application = world.start(topology, wishes=Wishes.of(**wishes))
    application.run_until()
    application.close()


def rows(world: World, store: str = "rows") -> list[Any]:
    opened = open_application(world.topology, "app", world.settings, world.log, world.storage)
    with committed_store(opened, store) as view:
        if store == "sessions":
            return [(key.key, *found) for key, found in view.all_with_headers()]
        found = view.range_with_headers() if store == "rows" else view.fetch_all_with_headers()
        return [(key if store == "rows" else key.key, *row) for key, row in found]


@pytest.mark.parametrize("keeps_databases", [True, False])
def test_headers_survive_restarts_snapshots_and_the_loss_of_the_databases(tmp_path: Path, keeps_databases: bool):
    world = World(tmp_path, keeping())
    for number in range(6):  # more than the commits between two snapshots
        run(world, Record(f"k{number}", number, number, (("n", b"%d" % number),)))
        if not keeps_databases:
            world.lose_local_state()
    run(world, Record("k0", 10, 10))
    expected = [("k0", 10, 10, ())] + [(f"k{n}", n, n, (("n", b"%d" % n),)) for n in range(1, 6)]
    assert rows(world) == expected
    assert [row for row in sorted(rows(world, "windows")) if row[0] != "k0"] == expected[1:]
    sessions = [(key, value, headers) for key, value, _, headers in expected]
    assert [row for row in sorted(rows(world, "sessions")) if row[0] != "k0"] == sessions[1:]


def test_a_crash_loses_no_headers(tmp_path: Path):
    world = World(tmp_path, keeping())
    run(world, Record("a", 1, 1, ID))
    produce([Record("b", 2, 2, ID)], "in", str, int, world.log)
    application = world.start()
    application.run_until()
    for task in application.host.tasks():
        task.state.abandon()
    run(world, Record("c", 3, 3))
    assert rows(world) == [("a", 1, 1, ID), ("b", 2, 2, ID), ("c", 3, 3, ())]


@pytest.mark.parametrize("keeps_databases", [True, False])
def test_a_store_may_begin_to_keep_headers_and_older_rows_have_none(tmp_path: Path, keeps_databases: bool):
    world = World(tmp_path, keeping(with_headers=False))
    run(world, Record("a", 1, 1, ID), Record("b", 2, 2, ID))
    if not keeps_databases:
        world.lose_local_state()
    world.topology = keeping()
    run(world, Record("b", 3, 3, ID))
    run(world, Record("c", 4, 4))
    assert rows(world) == [("a", 1, 1, ()), ("b", 3, 3, ID), ("c", 4, 4, ())]
    windows = [("a", 1, 1, ()), ("b", 2, 2, ()), ("b", 3, 3, ID), ("c", 4, 4, ())]
    assert sorted(rows(world, "windows")) == windows
    assert sorted(rows(world, "sessions")) == [(key, value, headers) for key, value, _, headers in windows]


def test_a_session_store_begins_to_keep_headers_under_another_name(tmp_path: Path):
    def of(name: str, made: Any, put: Any) -> Topology:
        builder = StreamsBuilder()
        builder.add_state_store(made(Stores.persistent_session_store(name, "1 day"), str, int))
        stream = builder.stream("in", key=str, value=int)
        stream.process(lambda record, context: put(context.get_state_store(name), record), name)
        return builder.build()

    def plain(store: Any, record: Record) -> None:
        store.put(SessionKey(record.key, record.timestamp, record.timestamp), record.value)

    def headed(store: Any, record: Record) -> None:
        [(_, before), *_] = [*store.fetch("a"), (None, AggregationWithHeaders(0))]
        found = AggregationWithHeaders(before.aggregation + record.value, record.headers)
        store.put(SessionKey(record.key, record.timestamp, record.timestamp), found)

    world = World(tmp_path, of("before", Stores.session_store_builder, plain))
    run(world, Record("a", 1, 1, ID), Record("a", 2, 90_000_000))
    world.topology = of("sessions", Stores.session_store_with_headers_builder, headed)
    run(world, Record("b", 5, 90_000_001, ID), rename={"before": "sessions"})
    assert sorted(rows(world, "sessions")) == [("a", 2, ()), ("b", 7, ID)]


def test_a_store_does_not_stop_to_keep_headers_without_a_word(tmp_path: Path):
    world = World(tmp_path, keeping())
    run(world, Record("a", 1, 1, ID))
    with pytest.raises(ConfigError, match="store 'rows': headers was kept and is none now"):
        run(world, topology=keeping(with_headers=False))
    world.topology = keeping(with_headers=False)
    run(world, Record("b", 2, 2), drop=["rows", "windows", "sessions"])
    opened = open_application(world.topology, "app", world.settings, world.log, world.storage)
    with committed_store(opened, "rows") as view:
        assert list(view.all()) == [("b", 2, 2)]


def counting() -> Topology:
    builder = StreamsBuilder()
    left, right = (builder.stream(topic, key=str, value=int) for topic in ("in", "other"))
    left.group_by_key().count("counts").to_stream().to("out")
    windows = JoinWindows.of_time_difference_and_grace("1 day", 0)
    left.join(right, lambda one, other: one + other, windows, value=int).to("joined")
    return builder.build()


def test_tables_and_joins_go_on_when_the_format_of_the_dsl_changes_and_changes_back(tmp_path: Path):
    produced = World(tmp_path, counting())
    produce([], "other", str, int, produced.log)
    for number, format_ in enumerate(("default", "headers", "default", "HEADERS")):
        world = World(tmp_path, counting(), dsl_store_format=format_)
        run(world, Record("a", number, number, ID))
        world.lose_local_state()
        with open_store(str(world.storage.root), "counts") as view:
            assert (view.get("a"), view.has_headers) == (number + 1, format_.lower() == "headers")
    produce([Record("a", 10, 5)], "other", str, int, world.log)
    run(world)
    assert world.output("joined") == [("a", 10), ("a", 11), ("a", 12), ("a", 13)]


MANY = [Record(f"k{n % 9}", n, n, (("n", b"%d" % n),) if n % 3 else ()) for n in range(60)]
STORES = ("rows", "windows", "sessions")


def processed(program: Program, records: list[Record]) -> None:
    produce(records, "in", str, int, program.log)
    application = program.start()
    application.run_until()
    application.close()


@pytest.mark.slow
def test_rows_keep_their_headers_when_an_application_gets_other_partitions(tmp_path: Path):
    rescaled, undisturbed = (Program(tmp_path / name, keeping(), 2) for name in ("rescaled", "undisturbed"))
    processed(rescaled, MANY[:30])
    for partitions, some in ((7, MANY[30:45]), (3, MANY[45:])):
        rescaled.make_topics_anew(partitions)
        rescaled.rescale(partitions)
        processed(rescaled, some)
    processed(undisturbed, MANY)
    for store in STORES:
        expected = sorted(rows(undisturbed, store))
        assert sorted(rows(rescaled, store)) == expected
        assert sum(1 for *_, headers in expected if headers) > len(expected) // 2


def joining(steps_in_front: int, names: str = "s") -> Topology:
    """Stores of processors whose names begin so, and a join whose stores have the numbers of its steps."""
    builder = StreamsBuilder()
    left, right = (builder.stream(topic, key=str, value=int) for topic in ("in", "other"))
    for _ in range(steps_in_front):
        left = left.filter(lambda key, value: True)
    supplier = Stores.persistent_timestamped_key_value_store(f"{names}-rows")
    builder.add_state_store(Stores.timestamped_key_value_store_with_headers_builder(supplier, str, int))

    class Last(Processor):
        def init(self, context):
            self.context, self.rows = context, context.get_state_store(f"{names}-rows")

        def process(self, record):
            before = self.rows.get(record.key)
            self.rows.put(record.key, ValueTimestampHeaders(record.value, record.timestamp, record.headers))
            self.context.forward(record.with_value(repr(before)))

    left.process(Last, f"{names}-rows", value=str).to("before")
    left.join(
        right, lambda one, other: one + other, JoinWindows.of_time_difference_and_grace("1 day", 0), value=int
    ).to("joined")
    return builder.build()


@pytest.mark.parametrize("keeps_databases", [True, False])
def test_headers_go_on_when_steps_get_other_numbers_and_stores_other_names(tmp_path: Path, keeps_databases: bool):
    def outcome(folder: str, first: Topology, second: Topology, **wishes: Any) -> dict[str, Any]:
        world = World(tmp_path / folder, first, dsl_store_format="headers")
        produce([], "other", str, int, world.log)
        run(world, *MANY[:20])
        produce([Record(f"k{n}", 100, 5, (("other", b"1"),)) for n in range(5)], "other", str, int, world.log)
        if not keeps_databases:
            world.lose_local_state()
        world.topology = second
        run(world, *MANY[20:40], **wishes)
        produce([Record(f"k{n}", 200, 25, (("other", b"2"),)) for n in range(5)], "other", str, int, world.log)
        run(world)
        found = {topic: list(consume(topic, log=world.log)) for topic in ("before", "joined")}
        return {topic: [(r.key, r.value, r.timestamp, r.headers) for r in rows] for topic, rows in found.items()}

    expected = outcome("plain", joining(0), joining(0))
    assert outcome("moved", joining(0), joining(3, "t"), rename={"s-rows": "t-rows"}) == expected
    assert any("ValueTimestampHeaders" in value and "b'" in value for _, value, _, _ in expected["before"])
    assert any(headers for *_, headers in expected["joined"])
    assert len(expected["joined"]) > 20


@pytest.mark.parametrize(("is_own", "expected"), [(False, []), (True, ["headers"])])
def test_rows_of_own_session_stores_are_not_penstocks_to_write_again(is_own: bool, expected: list[str]):
    before, now = (
        Kept(0, {"rows": "sessions", "headers": headers}, True, None, is_own)
        for headers in ("none", "kept in sessions")
    )
    assert differences(before, now) == expected
    assert differences(now, before) == ["headers"]
