"""An application goes on with another number of partitions: ``penstock rescale``."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from penstock import StreamsBuilder, Topology, faults
from penstock.arrays import binary
from penstock.engine.rescaling.rescale import Rescale, RescalePlan, Source
from penstock.errors import ConfigError, FencedError
from penstock.faults import RESCALE_POINTS
from penstock.log.produce import produce
from support.every_store import KEYS, LATER, THIRDS, Program, every_kind_of_store

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


def test_unread_records_that_lie_where_their_state_will_not_be_are_refused(
    counted: Program, monkeypatch: pytest.MonkeyPatch
):
    produce(THIRDS[1], "in", str, int, counted.log)
    grown(counted, 8, monkeypatch)
    with pytest.raises(ConfigError, match="Kafka's partitioner puts this record's key into another partition now"):
        counted.rescale(8)
    assert counted.rows("counts") == processed(counted.folder / "same", topology=counting()).rows("counts")


def test_a_rescale_without_other_partitions_or_to_others_is_refused(counted: Program):
    with pytest.raises(ConfigError, match="no source has another number of partitions than before: 'in' \\(2\\)"):
        counted.rescale(8)
    counted.make_topics_anew(5)
    with pytest.raises(ConfigError, match="source topic 'in' has 5 partitions, not 8; nothing was changed"):
        counted.rescale(8)


def test_another_program_is_refused(counted: Program):
    counted.make_topics_anew(8)
    counted.topology = counting("other")
    with pytest.raises(ConfigError, match="the program is not the one that was last started"):
        counted.rescale(8)


def test_records_that_another_partitioner_has_placed_are_refused(tmp_path: Path):
    program = Program(tmp_path, counting(), 2)
    with program.log.writer("in", "elsewhere") as writer:
        for partition in (0, 1):
            writer.write(partition, binary([b"k1", b"k2"]), binary([b"\0" * 8] * 2), np.array([0, 1]))
    program.log.append("in", writer.segments())
    program.process()
    refusal = r"store 'counts' has rows in partition . whose keys"
    with pytest.raises(ConfigError, match=refusal):  # before a topic has changed
        Rescale(program.topology, program.storage, program.log, 8)
    program.make_topics_anew(8)
    with pytest.raises(ConfigError, match=refusal):  # without doing it
        Rescale(program.topology, program.storage, program.log, 8)


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
