"""An application goes on with another number of partitions: ``penstock rescale``."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from penstock import Materialized, StreamsBuilder, Topology, faults
from penstock.arrays import binary
from penstock.engine.commit.invariants import Step
from penstock.engine.rescaling import rescale
from penstock.engine.rescaling.rescale import Rescale, RescalePlan, Source
from penstock.engine.shared.manifest import Manifest
from penstock.errors import CommitError, ConfigError, CorruptDataError, FencedError, PenstockError, TopicNotFoundError
from penstock.faults import RESCALE_POINTS
from penstock.log.produce import produce
from penstock.settings import Settings
from support.every_store import KEYS, LATER, THIRDS, Program, every_kind_of_store
from support.own_stores import SqliteStore, Supplier

pytestmark = [pytest.mark.kip("KS-12"), pytest.mark.slow]


def processed(folder: Path, partitions: int = 2, topology: Topology | None = None) -> Program:
    program = Program(folder, topology or every_kind_of_store(), partitions)
    program.process(*THIRDS[0])
    return program


def test_a_program_rescaled_twice_ends_with_the_tables_of_an_undisturbed_one(tmp_path: Path):
    program = processed(tmp_path / "rescaled")
    for partitions, third in ((8, 1), (3, 2)):
        program.make_topics_anew(partitions)
        program.rescale(partitions)
        program.process(*THIRDS[third])
    program.process(*LATER)
    undisturbed = Program(tmp_path / "undisturbed", every_kind_of_store(), 2)
    undisturbed.process(*THIRDS[0], *THIRDS[1], *THIRDS[2])
    undisturbed.process(*LATER)
    got, expected = program.tables(), undisturbed.tables()
    for topic, table in expected.items():
        assert got[topic] == table, topic
        assert len(table) > 4, topic


def test_a_topic_with_more_partitions_goes_on_where_it_was(tmp_path: Path):
    program = processed(tmp_path / "rescaled")
    for topic in program.sources:
        program.log.add_partitions(topic, 8)
    with pytest.raises(ConfigError) as refused:
        program.process()
    sources = "; ".join(f"topic {topic!r} had 2 partitions and has 8 now" for topic in sorted(program.sources))
    assert str(refused.value) == (
        f"{sources}: `penstock rescale app --partitions 8` moves the state of application 'app' to where its keys are "
        "now. `penstock reset app` has it begin again without it. Nothing was started, and nothing is lost"
    )
    assert not any(source.is_new for source in program.rescale(8).plan.sources)
    program.process(*THIRDS[1], *THIRDS[2])
    program.process(*LATER)
    undisturbed = Program(tmp_path / "undisturbed", every_kind_of_store(), 2)
    undisturbed.process(*THIRDS[0], *THIRDS[1], *THIRDS[2])
    undisturbed.process(*LATER)
    assert program.tables() == undisturbed.tables()


def counting(store: str = "counts") -> Topology:
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=int)
    stream.group_by_key().count(store).to_stream().to("counts")
    return builder.build()


@pytest.fixture
def counted(tmp_path: Path) -> Program:
    return processed(tmp_path / "program", topology=counting())


def counts_after(*thirds: int) -> dict[str, int]:
    keys = [key for third in thirds for key, _, _ in THIRDS[third]]
    return {repr(key): keys.count(key) for key in keys}


def counts_of(program: Program) -> dict[str, int]:
    return {key: int(value) for key, (value, _) in program.tables()["counts"].items()}


def test_a_plan_tells_what_becomes_of_sources_tasks_and_stores_and_changes_nothing(counted: Program):
    counted.make_topics_anew(8)
    before = sorted(counted.storage.list(""))
    plan = Rescale(counted.topology, counted.storage, counted.log, 8).plan
    newest = len(list(counted.storage.root.glob("manifests/*")))
    assert plan == RescalePlan("app", newest, [Source("in", 2, 8, True)], {0: (2, 8)}, ["counts"], [])
    assert sorted(counted.storage.list("")) == before


def grown(program: Program, partitions: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The source as Kafka makes one larger: what is there stays where it is."""
    log, id_ = program.log, program.log.topic_id("in")
    kept = [list(log.read("in", p, 0, end)) for p, end in enumerate(log.end_offsets("in"))]
    program.make_topics_anew(partitions)
    with log.writer("in", "grown") as writer:
        for partition, pieces in enumerate(kept):
            for piece in pieces:
                writer.write(partition, piece.key, piece.value, piece.timestamp)
    log.append("in", writer.segments())
    ids = type(log).topic_id, type(log).topic_ids
    monkeypatch.setattr(log, "topic_id", lambda name: id_ if name == "in" else ids[0](log, name))
    monkeypatch.setattr(log, "topic_ids", lambda names: ids[1](log, names) | {"in": id_})


def test_a_source_that_was_made_larger_is_read_on_where_it_was(counted: Program, monkeypatch: pytest.MonkeyPatch):
    grown(counted, 8, monkeypatch)
    assert counted.rescale(8).plan.sources == [Source("in", 2, 8, False)]
    counted.process(*THIRDS[1])
    assert counts_of(counted) == counts_after(0, 1)


Make = Callable[[Path, pytest.MonkeyPatch], Program]


def processed_counts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    return processed(folder, topology=counting())


def unread(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    program = processed(folder, topology=counting())
    produce(THIRDS[1], "in", str, int, program.log)
    grown(program, 8, monkeypatch)
    return program


def with_partitions(partitions: int, topology: Topology | None = None) -> Make:
    """The counts, with a new topic of so many partitions, for another program perhaps."""

    def made(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
        program = processed(folder, topology=counting())
        program.make_topics_anew(partitions)
        program.topology = topology or program.topology
        return program

    return made


def placed_by_another_partitioner(partitions: int) -> Make:
    def made(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
        program = Program(folder, counting(), 2)
        with program.log.writer("in", "elsewhere") as writer:
            for partition in (0, 1):
                writer.write(partition, binary([b"k1", b"k2"]), binary([b"\0" * 8] * 2), np.array([0, 1]))
        program.log.append("in", writer.segments())
        program.process()
        if partitions != 2:
            program.make_topics_anew(partitions)
        return program

    return made


def waiting(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    """A program that was killed while records waited in its repartition topic."""
    builder = StreamsBuilder()
    stream = builder.stream("in", key=str, value=int)
    stream.group_by(lambda key, value: f"v{value}", key=str).count("counts").to_stream().to("counts")
    program = Program(folder, builder.build(), 2)
    program.settings = Settings.load(
        environment={}, folder=folder, commit_max_bytes=200, chunk_records=5, chunk_bytes=100
    )
    program.produce(*((key, value, time) for third in THIRDS for key, value, time in third))
    application = program.start()
    for _ in range(4):
        application.coordinator.step(application.coordinator.end_offsets())
    for task in application.host.tasks():
        task.state.abandon()
    program.make_topics_anew(8)
    return program


def bringing_its_own_store(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    builder = StreamsBuilder()
    kept = Materialized.as_(Supplier(SqliteStore)).with_caching_disabled()
    builder.stream("in", key=str, value=int).group_by_key().count(materialized=kept).to_stream().to("counts")
    program = processed(folder, topology=builder.build())
    program.make_topics_anew(8)
    return program


def never_started(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    return Program(folder, counting(), 2)


def without_its_source(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    program = processed(folder, topology=counting())
    program.log.delete_topic("in")
    return program


def with_an_output_of_an_older_copy(starts: int) -> Make:
    """A program whose output lacks the results of its last commit, after which it was started so many times."""

    def made(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
        program = processed(folder, topology=counting())
        program.log.wait()
        shutil.copytree(program.log.root / "counts", folder / "copy")
        program.process(*THIRDS[1])
        for _ in range(starts):
            program.process()
        program.log.wait()
        shutil.rmtree(program.log.root / "counts")
        shutil.move(folder / "copy", program.log.root / "counts")
        program.make_topics_anew(8)
        return program

    return made


MISPLACED = r"store 'counts' has rows in partition . whose keys Kafka's partitioner puts into others"

REFUSALS: dict[str, tuple[Make, type[PenstockError], str]] = {
    "never started": (never_started, ConfigError, "does not say what the application keeps: it was never started"),
    "a source that is not there": (without_its_source, TopicNotFoundError, "'in'"),
    "another program": (
        with_partitions(8, counting("other")), ConfigError, "the program is not the one that was last started",
    ),
    "records that wait": (waiting, ConfigError, "records wait in the repartition topics counts-repartition. Start"),
    "an output of an older copy": (
        with_an_output_of_an_older_copy(1), CorruptDataError, "the log is older than the checkpoint: topic 'counts'",
    ),
    "an output that lacks the newest commit's results alone": (
        with_an_output_of_an_older_copy(0), CorruptDataError, "the log is older than the checkpoint: topic 'counts'",
    ),
    "no other partitions": (
        processed_counts, ConfigError, r"no source has another number of partitions than before: 'in' \(2\)",
    ),
    "other partitions than are said": (
        with_partitions(5), ConfigError, "source topic 'in' has 5 partitions, not 8; nothing was changed",
    ),
    "stores of its own": (
        bringing_its_own_store, ConfigError, "sub-topology 0 has a store that the program brings, whose rows cannot",
    ),
    "rows that another partitioner has placed": (placed_by_another_partitioner(8), ConfigError, MISPLACED),
    "such rows, before a topic has changed": (placed_by_another_partitioner(2), ConfigError, MISPLACED),
    "unread records that lie where their state will not be": (
        unread, ConfigError, "Kafka's partitioner puts this record's key into another partition, because",
    ),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", REFUSALS)
def test_whatever_is_refused_is_refused_without_doing_it_too(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
):
    made, error, said = REFUSALS[name]
    program = made(tmp_path, monkeypatch)
    before = {name: program.storage.read(name) for name in program.storage.list("")}
    with pytest.raises(error, match=said):  # what `penstock rescale` does without --execute
        Rescale(program.topology, program.storage, program.log, 8)
    assert {name: program.storage.read(name) for name in program.storage.list("")} == before


def test_a_commit_that_would_be_wrong_is_noticed_without_doing_it_too(
    counted: Program, monkeypatch: pytest.MonkeyPatch
):
    counted.make_topics_anew(8)
    before = sorted(counted.storage.list(""))
    looked_at: list[Manifest] = []

    def wrong(newest: Manifest, manifest: Manifest, where: str, step: Step) -> CommitError:
        looked_at.append(manifest)
        return CommitError(f"{where} is not created, because it would be wrong")

    monkeypatch.setattr(rescale, "refusal", wrong)
    with pytest.raises(CommitError, match="would be wrong"):
        Rescale(counted.topology, counted.storage, counted.log, 8)
    assert [one.tasks.keys() for one in looked_at] == [{f"0_{partition}" for partition in range(8)}]
    assert sorted(counted.storage.list("")) == before


def test_one_that_made_a_commit_meanwhile_is_not_rescaled(counted: Program):
    counted.make_topics_anew(8)
    planned = Rescale(counted.topology, counted.storage, counted.log, 8)
    Rescale(counted.topology, counted.storage, counted.log, 8).execute()
    with pytest.raises(FencedError, match=r"has made commit . meanwhile"):
        planned.execute()


class Killed(BaseException):
    """Stands for a kill."""


@pytest.mark.parametrize(("point", "nth"), [(RESCALE_POINTS[0], 5), (RESCALE_POINTS[1], 1)])
def test_a_kill_leaves_the_checkpoint_of_before_whole(
    counted: Program, point: str, nth: int, monkeypatch: pytest.MonkeyPatch
):
    before, rows = {name: counted.storage.read(name) for name in counted.storage.list("")}, counted.rows("counts")
    counted.make_topics_anew(8)
    seen = 0

    def listen(name: str) -> None:
        nonlocal seen
        seen += name == point
        if name == point and seen == nth:
            raise Killed

    monkeypatch.setattr(faults, "listener", listen)
    with pytest.raises(Killed):
        counted.rescale(8)
    monkeypatch.setattr(faults, "listener", None)
    assert before.items() <= {name: counted.storage.read(name) for name in counted.storage.list("")}.items()
    assert counted.rows("counts") == rows
    counted.rescale(8)
    counted.process(*THIRDS[1])
    assert counts_of(counted) == counts_after(0, 1)
    assert len({path.parts[-2] for path in counted.storage.root.glob("bases/*/*.snapshot")}) == 1


def test_another_machine_begins_with_the_rows_as_well(counted: Program):
    counted.make_topics_anew(3)
    counted.rescale(3)
    shutil.rmtree(counted.folder / "tasks")
    counted.process(*THIRDS[1])
    assert counts_of(counted) == counts_after(0, 1)
    assert len(counted.rows("counts")) == len(KEYS)
