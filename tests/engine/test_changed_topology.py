"""A start with another topology, or of another program: what would mix or lose state is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from penstock import (
    CalendarWindows,
    Count,
    Materialized,
    Max,
    Min,
    SessionWindows,
    StreamsBuilder,
    TimeWindows,
    Topology,
)
from penstock.engine.evolution.matching import NO_WISHES, Matches, matches_of
from penstock.engine.evolution.refusals import check
from penstock.engine.shared import starts
from penstock.engine.shared.description import Description, description_of
from penstock.engine.shared.exchange import ExchangeRef
from penstock.engine.shared.layout import layout_of
from penstock.engine.shared.manifest import Manifest, TaskEntry
from penstock.engine.shared.program import ProgramFile
from penstock.engine.shared.starts import FORMAT
from penstock.errors import ConfigError
from penstock.log.base import TopicInfo
from penstock.log.memory import MemoryLog
from penstock.log.produce import produce
from penstock.settings import Settings
from penstock.storage.base import FileRef, seal, unseal
from support.world import World

HOUR = 3_600_000
Steps = Callable[[Any], Any]


def topology(*pipelines: Steps) -> Topology:
    """Pipelines that begin at the stream of the topic ``in``, one after the other."""
    builder = StreamsBuilder()
    stream = builder.stream("in", value=str)
    for pipeline in pipelines:
        pipeline(stream)
    return builder.build()


def windows(size: int = HOUR, grace: int = 0) -> TimeWindows:
    return TimeWindows.of_size_and_grace(size, grace)


def counted(store: str | None = "counts", of: Any = None) -> Steps:
    """A count by key, plain or in windows, written to ``out``."""

    def steps(stream: Any) -> None:
        grouped = stream.group_by_key()
        table = (grouped if of is None else grouped.windowed_by(of)).count(store)
        table.to_stream().map(lambda key, n: (str(getattr(key, "key", key)), n), key=str, value=int).to("out")

    return steps


def aggregated(initialize: Any, add: Any, store: str = "counts", value: Any = None) -> Steps:
    return lambda stream: stream.group_by_key().aggregate(initialize, add, store=store, value=value)


def again(world: World, changed: Topology) -> World:
    """Some records processed by the world's topology, then the start of another one."""
    produce([("a", "x", 10), ("b", "y", 20), ("a", "z", 2 * HOUR)], "in", value=str, log=world.log, partitions=1)
    world.run()
    world.topology = changed
    world.run()
    return world


REFUSED = {
    "days of another time zone": (
        counted(of=CalendarWindows.by_day("Europe/Berlin")),
        counted(of=CalendarWindows.by_day("America/New_York")),
        r"store 'counts': windows was day Europe/Berlin and is day America/New_York now",
    ),
    "another window size": (
        counted(of=windows(HOUR)),
        counted(of=windows(2 * HOUR)),
        r"store 'counts': window size was 3600000 ms and is 7200000 ms now",
    ),
    "another grace period, and with it another retention": (
        counted(of=windows(HOUR)),
        counted(of=windows(HOUR, 60_000)),
        r"store 'counts': retention was 3600000 ms and is 3660000 ms now",
    ),
    "windows no more": (
        counted(of=windows()),
        counted(),
        r"store 'counts': rows was windows and is values by key now",
    ),
    "windows as sessions": (
        counted(of=windows()),
        counted(of=SessionWindows.of_inactivity_gap_with_no_grace(HOUR)),
        r"rows was windows and is sessions now",
    ),
    "a renamed store": (
        counted("before"),
        counted("now"),
        r"store 'before' \(values by key\) no longer exists, and 'now' is new .* begin empty: was it renamed\?",
    ),
    "a store that is gone": (
        lambda stream: [counted()(stream), stream.group_by_key().count("second")],
        counted(),
        r"store 'second' \(values by key\) no longer exists",
    ),
    "another type": (
        counted(),
        aggregated(list, lambda key, value, seen: [*seen, value]),
        r"store 'counts': value was int and is json\[list\] now, made by was count and is aggregate now",
    ),
    "other aggregates by name": (
        lambda stream: stream.group_by_key().aggregate(store="counts", n=Count(), x=Max(len)),
        lambda stream: stream.group_by_key().aggregate(store="counts", n=Count(), x=Min(len)),
        r"store 'counts': aggregates was n=Count\(\), x=Max\(len\) and is n=Count\(\), x=Min\(len\) now",
    ),
    "another type of keys": (
        lambda stream: stream.group_by(lambda key, value: "x", key=str).count("counts"),
        lambda stream: stream.group_by(lambda key, value: 7, key=int).count("counts"),
        r"store 'counts': key was str and is int now",
    ),
    "another type of JSON": (
        aggregated(dict, lambda key, value, seen: {**seen, value: 1}),
        aggregated(list, lambda key, value, seen: [*seen, value]),
        r"store 'counts': value was json\[dict\] and is json\[list\] now, first value was dict and is list now",
    ),
    "JSON of release 0.1.0, in which an unannotated function's result was JSON (0073)": (
        lambda stream: stream.map_values(str.upper, value=Any).to_table(store="counts"),
        lambda stream: stream.map_values(str.upper).to_table(store="counts"),
        r"store 'counts': value was json and is str now; value=Any at its step, with Any of typing, keeps the JSON",
    ),
    "an aggregate of release 0.1.0, which was JSON whatever it began with": (
        aggregated(lambda: 0, lambda key, value, n: n + 1, value=Any),
        aggregated(lambda: 0, lambda key, value, n: n + 1),
        r"store 'counts': value was json and is int now; value=Any at its step, with Any of typing, keeps the JSON",
    ),
    "other partitions": (
        lambda stream: stream.repartition(partitions=2).group_by_key().count("counts"),
        lambda stream: stream.repartition(partitions=3).group_by_key().count("counts"),
        r"repartition' had 2 partitions and has 3 now; state is kept by partition and cannot follow",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_topology_that_would_mix_or_lose_state_is_refused_with_both_sides_named(case: str, tmp_path: Path):
    before, now, says = REFUSED[case]
    world = World(tmp_path, topology(before))
    with pytest.raises(ConfigError, match=says) as error:
        again(world, topology(now))
    assert "no longer fits what application 'app' has kept in" in str(error.value)
    assert "start it under another application id" in str(error.value)
    world.topology = topology(before)
    world.run("a")  # nothing was lost


def test_a_table_of_another_topic_is_refused(tmp_path: Path):
    def table_of(topic: str) -> Topology:
        builder = StreamsBuilder()
        builder.table(topic, value=str, materialized=Materialized.as_("names"))
        builder.stream("in", value=str).to("out")
        builder.stream("places" if topic == "people" else "people", value=str).to("copy")
        return builder.build()

    world = World(tmp_path, table_of("people"))
    for topic in ("people", "places"):
        produce([("a", "x", 0)], topic, value=str, log=world.log, partitions=1)
    with pytest.raises(ConfigError, match="store 'names': topic was people and is places now"):
        again(world, table_of("places"))


def test_records_that_wait_in_a_repartition_topic_that_is_gone_are_not_forgotten():
    ref = ExchangeRef(0, FileRef("file", 1, 1), [0], 5)
    newest = Manifest(3, {"1_0": TaskEntry()}, waiting={"1_0": {"by-name-repartition": [ref]}})
    empty = Description({}, {}, {}, {})
    with pytest.raises(ConfigError, match="records wait in the repartition topic 'by-name-repartition', which nothing"):
        check(empty, empty, Matches(), newest, "app", "here")


def described(topology: Topology, **settings: Any) -> Description:
    completed = topology.completed_by(Settings.load(environment={}, **settings))
    log = MemoryLog()
    log.create_topic(TopicInfo("in", 1, "str", "str"))
    return description_of(completed, layout_of(completed, log))


def of_release(description: Description) -> Description:
    """What release 0.1.0 wrote down of a topology: no types of what is sent and written."""
    return replace(description, types=None, types_before={}, outputs={}, outputs_before={})


def regrouped(**types: Any) -> Topology:
    return topology(lambda stream: stream.map_values(str.upper, **types).group_by(str.strip).count("counts"))


def waiting_in(topic: str) -> Manifest:
    ref = ExchangeRef(0, FileRef("file", 1, 1), [0], 5)
    return Manifest(3, {"1_0": TaskEntry()}, waiting={"1_0": {topic: [ref]}})


TOPIC = "counts-repartition"


def kept(old: Description, new: Description, newest: Manifest | None = None) -> None:
    check(old, new, matches_of(old, new, NO_WISHES), newest or waiting_in(TOPIC), "app", "here")


def test_records_that_wait_as_json_are_not_read_as_text():
    told = (
        r"records wait in the repartition topic 'counts-repartition': value was json and is str now; value=Any at its"
    )
    old = described(regrouped(value=Any))
    with pytest.raises(ConfigError, match=told):
        kept(old, described(regrouped()))
    with pytest.raises(ConfigError, match=told):
        kept(of_release(described(regrouped())), described(regrouped()))
    for now in (old, of_release(old)):
        kept(now, described(regrouped(value=Any)))
    kept(of_release(described(regrouped())), described(regrouped()), Manifest(3, {"1_0": TaskEntry()}))  # none waits
    kept(of_release(described(regrouped())), described(regrouped(), default_value_serde="str"))  # it was text then, too


def test_what_waits_as_json_may_be_read_as_json_of_a_type():
    def counted_orders(stream: Any) -> None:
        stream.map_values(dict, value=dict).map_values(lambda value: value).group_by(str).count("counts")

    kept(of_release(described(topology(counted_orders))), described(topology(counted_orders)))


def test_an_output_whose_type_nobody_said_is_not_changed_in_its_middle():
    def written(**types: Any) -> Topology:
        return topology(lambda stream: [stream.map_values(str.upper, **types).to("upper"), counted()(stream)])

    newest = Manifest(3, {"0_0": TaskEntry()})
    with pytest.raises(ConfigError, match=r"topic 'upper': value was json and is str now; value=Any .* to change it"):
        kept(of_release(described(written())), described(written()), newest)
    for said in (str, Any):
        kept(of_release(described(written())), described(written(value=said)), newest)
    kept(described(written()), described(written()), newest)  # a release that tells them has written them


def nothing(stream: Any) -> None:
    pass


HARMLESS = {
    "a generated number that moved": (
        counted(None),
        lambda stream: counted(None)(stream.filter(lambda key, value: True)),
    ),
    "a new store": (counted(), lambda stream: [counted()(stream), stream.group_by_key().count("second")]),
    "new stateless steps": (counted(), lambda stream: counted()(stream.filter(lambda key, value: value != "never"))),
    "another function": (
        lambda stream: counted()(stream.peek(lambda key, value: None)),
        lambda stream: counted()(stream.peek(lambda key, value: len(value))),
    ),
    "an output more": (counted(), lambda stream: [counted()(stream), stream.to("copy")]),
    "a stateless step less": (lambda stream: counted()(stream.filter(lambda key, value: True)), counted()),
}


@pytest.mark.parametrize("case", HARMLESS)
def test_a_harmless_change_goes_on_with_the_state(case: str, tmp_path: Path):
    before, now = HARMLESS[case]
    world = again(World(tmp_path, topology(before)), topology(now))
    world.run("a", "b")
    assert world.output() == [("a", 1), ("b", 1), ("a", 2), ("a", 3), ("b", 2)]


@pytest.mark.parametrize("keeps_databases", [True, False])
def test_stream_time_stays_when_the_numbers_of_steps_move(keeps_databases: bool, tmp_path: Path):
    """The record at 30 is late for its window, whose grace is over since the one at two hours."""
    filtered = topology(lambda stream: counted(of=windows())(stream.filter(lambda key, value: True)))
    for first, second in ((topology(counted(of=windows())), filtered), (filtered, topology(counted(of=windows())))):
        world = World(tmp_path / first.nodes[1].name, first)
        produce([("a", "x", 10), ("a", "z", 2 * HOUR)], "in", value=str, log=world.log, partitions=1)
        world.run()
        if not keeps_databases:
            world.lose_local_state()
        world.topology = second
        produce([("a", "late", 30), ("a", "z", 2 * HOUR)], "in", value=str, log=world.log)
        world.run()
        assert world.output() == [("a", 1), ("a", 1), ("a", 2)]


def test_before_anything_is_processed_the_topology_may_change(tmp_path: Path):
    world = World(tmp_path, topology(counted("before")))
    produce([], "in", value=str, log=world.log, partitions=1)
    world.run()
    world.topology = topology(counted("now"))
    world.run("a")
    assert world.output() == [("a", 1)]


def newest_start(world: World) -> dict[str, Any]:
    return unseal(sorted(world.storage.root.glob("starts/*"))[-1].read_bytes(), dict[str, Any], "")


def rewrite_start(world: World, **fields: Any) -> None:
    path = sorted(world.storage.root.glob("starts/*"))[-1]
    path.write_bytes(seal({**newest_start(world), **fields}))


def test_a_checkpoint_without_a_description_is_adopted(tmp_path: Path):
    world = World(tmp_path, topology(counted()))
    world.run("a")
    rewrite_start(world, topology=None)
    world.run("a")
    world.topology = topology(counted("other"))
    with pytest.raises(ConfigError, match="was it renamed"):
        world.run()


@pytest.mark.kip("KS-12")
def test_a_checkpoint_of_format_1_goes_on_and_is_of_the_format_of_now_from_then_on(tmp_path: Path):
    world = World(tmp_path, topology(counted()))
    world.run("a")
    described = newest_start(world)["topology"]
    later = {"internal", "everywhere"}
    stores = {name: {k: v for k, v in kept.items() if k not in ("trace", "is_own")} for name, kept in stores_in(world)}
    rewrite_start(world, format=1, topology={k: v for k, v in described.items() if k not in later} | {"stores": stores})
    world.run("a")
    assert world.output() == [("a", 1), ("a", 2)]
    assert newest_start(world)["format"] == FORMAT > 1


def stores_in(world: World) -> Any:
    return newest_start(world)["topology"]["stores"].items()


@pytest.mark.kip("KS-12")
def test_a_checkpoint_of_a_later_version_is_refused(tmp_path: Path):
    world = World(tmp_path, topology(counted()))
    world.run("a")
    rewrite_start(world, format=FORMAT + 1)
    with pytest.raises(
        ConfigError, match=rf"by a later version of Penstock \(format {FORMAT + 1}, this one knows {FORMAT}\)"
    ):
        world.run()


@pytest.mark.kip("KS-12")
def test_the_release_before_carried_state_refuses_what_it_would_ignore(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    world = World(tmp_path, topology(counted(None)))
    world.run("a")
    world.topology = topology(lambda stream: counted(None)(stream.filter(lambda key, value: True)))
    world.run()
    assert list(world.storage.root.glob("bases/*"))
    monkeypatch.setattr(starts, "FORMAT", 1)
    with pytest.raises(ConfigError, match=r"format 2, this one knows 1"):
        world.run()


# --- which program it is ---------------------------------------------------------------------------------------------


def file(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


@pytest.fixture
def flights(tmp_path: Path) -> World:
    """A world whose programs lie beside its state."""
    world = World(tmp_path, topology(counted()), state_dir=tmp_path / ".penstock" / "app")
    file(tmp_path / "app.py")
    file(tmp_path / "sub" / "app.py")
    return world


def run(world: World, path: str, name: str = "topology", default_id: bool = True) -> None:
    world.produce("a")
    application = world.start(program=ProgramFile(world.folder / path, name, default_id))
    application.run_until()
    application.close()


def test_another_program_with_the_same_file_name_does_not_take_up_its_state(flights: World):
    run(flights, "app.py")
    with pytest.raises(ConfigError, match=r"'app' is the program .*app.py:topology; .*sub/app\.py:topology has"):
        run(flights, "sub/app.py")
    run(flights, "app.py")
    assert flights.output() == [("a", 1), ("a", 2), ("a", 3)]


def test_another_topology_in_the_same_file_does_not_either(flights: World):
    run(flights, "app.py", "topology")
    with pytest.raises(ConfigError, match=r"Give it an id of its own: penstock run .*app\.py:late --application-id ID"):
        run(flights, "app.py", "late")


def test_an_application_id_that_was_chosen_is_not_refused_and_says_where_the_program_is_now(flights: World):
    run(flights, "app.py")
    run(flights, "sub/app.py", default_id=False)
    run(flights, "sub/app.py")
    with pytest.raises(ConfigError, match="has the same default id"):
        run(flights, "app.py")


def test_a_program_that_was_moved_goes_on(flights: World):
    run(flights, "app.py")
    (flights.folder / "app.py").rename(flights.folder / "sub" / "app.py")
    run(flights, "sub/app.py")
    assert flights.output() == [("a", 1), ("a", 2)]


def test_a_folder_that_was_moved_with_program_and_state_goes_on(flights: World):
    run(flights, "app.py")
    moved = flights.folder.with_name("moved")
    flights.folder.rename(moved)
    flights = World(moved, topology(counted()), state_dir=moved / ".penstock" / "app")
    run(flights, "app.py")
    assert flights.output() == [("a", 1), ("a", 2)]
