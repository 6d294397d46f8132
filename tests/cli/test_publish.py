"""``penstock publish``: what a broker refuses of a commit, and how a program goes on without it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Penstock
from penstock.engine.rescaling.rescale import Rescale
from penstock.engine.shared.manifest import Manifests
from penstock.errors import ConfigError
from penstock.log.consume import consume
from penstock.log.kafka.log import KafkaLog
from support.kafka import Cluster
from support.kafka_refusals import ROWS, App


@pytest.fixture
def stuck(kafka: str, tmp_path: Path, at: Any) -> Iterator[App]:
    """An application whose topic was made narrower when its commit was certain."""
    cluster = Cluster(kafka)
    app = App(cluster, tmp_path)
    app.get_stuck(at)
    yield app
    cluster.close()


def test_a_stuck_commit_is_told_without_changing_anything(stuck: App, penstock: Penstock):
    before = Manifests(stuck.storage).numbers(), stuck.cluster.opened().end_offsets(stuck.letters)
    told = penstock("publish", str(stuck.folder / "checkpoint"), "--dead-letters", stuck.letters)
    assert (told.code, told.err) == (0, ["Nothing was changed; --execute does it."])
    output, record = stuck.output, f"  {stuck.output}, partition 0: key"
    assert told.out == [
        f"Commit 1 of {stuck.cluster.name} is certain, and not in its topics yet:",
        f"{'topic'.ljust(len(output))}  records  refused",
        f"{output}        6        3",
        f"{record} None, value b'2', timestamp {stuck.now}",
        f"    topic {output!r} does not take the record with key None: it has no key, and the topic is compacted "
        "(cleanup.policy of the topic)",
        f"{record} b'd', value {told.out[5].partition('value ')[2].partition(', timestamp')[0]}, timestamp {stuck.now}",
        f"    topic {output!r} does not take the record with key b'd': it has 2071 bytes and the topic takes at most "
        "1000 (max.message.bytes of the topic)",
        f"{record} None, value b'6', timestamp {stuck.now}",
        f"    topic {output!r} does not take the record with key None: it has no key, and the topic is compacted "
        "(cleanup.policy of the topic)",
        f"Refused records go to topic {stuck.letters} as dead letters, and are counted; all others are published.",
    ]
    assert (Manifests(stuck.storage).numbers(), stuck.cluster.opened().end_offsets(stuck.letters)) == before


@pytest.mark.parametrize("asks", ["the topic's settings", "the broker"])
def test_refused_records_become_dead_letters_and_the_program_goes_on(
    stuck: App, penstock: Penstock, asks: str, monkeypatch: pytest.MonkeyPatch
):
    if asks == "the broker":  # as when it refuses for a reason that nothing tells before
        monkeypatch.setattr(KafkaLog, "refused", lambda *_: {})
    letters = f"{stuck.cluster.name}-dead-letters"
    done = penstock("publish", str(stuck.folder / "checkpoint"), "--execute")
    assert (done.code, done.err) == (0, ["Done; start the program again."])
    stuck.send((b"g", b"7", stuck.now))
    stuck.run(on_error="skip")
    assert stuck.keys(stuck.output) == [b"a", b"c", b"e", b"g"]
    found = list(consume(letters, log=stuck.cluster.opened(), key=bytes, value=bytes))
    assert [(one.key, one.value) for one in found] == [ROWS[1], ROWS[3], ROWS[5]]
    headers = dict(found[0].headers)
    assert (headers["penstock.topic"], headers["penstock.partition"]) == (stuck.output.encode(), b"0")
    assert (b"no key" if asks != "the broker" else b"INVALID_RECORD") in headers["penstock.error"]
    assert stuck.losses() == [("dead-letter-records-total", "RefusedRecordError", 3)]
    again = penstock("publish", str(stuck.folder / "checkpoint"))
    assert again.err[0].startswith("Nothing waits: all records of commit")


@pytest.mark.parametrize("how", [[], ["--execute"]], ids=["told", "done"])
def test_a_topic_for_dead_letters_that_refuses_them_as_well_is_told_with_and_without_doing_it(
    stuck: App, penstock: Penstock, how: list[str]
):
    stuck.cluster.configure(stuck.letters, {"cleanup.policy": "compact"})
    before = Manifests(stuck.storage).numbers()
    told = penstock("publish", str(stuck.folder / "checkpoint"), "--dead-letters", stuck.letters, *how)
    assert told.code == 1
    assert told.err[0].startswith(f"Error: topic {stuck.letters!r} refuses these records as well: topic")
    assert told.err[0].endswith("Nothing was changed. Say another topic, or drop them")
    assert Manifests(stuck.storage).numbers() == before


def test_a_stuck_commit_is_in_the_way_of_a_rescale_which_says_so_without_doing_it(stuck: App):
    with pytest.raises(
        ConfigError, match=r"topics refuse records of commit 1, 3 in all: .* `penstock publish \S+` turns"
    ):
        Rescale(stuck.topology, stuck.storage, stuck.cluster.opened(), 2)


def test_refused_records_can_be_dropped_and_are_counted(stuck: App, penstock: Penstock):
    assert penstock("publish", str(stuck.folder / "checkpoint"), "--drop", "--execute").code == 0
    stuck.run()
    assert stuck.keys(stuck.output) == [b"a", b"c", b"e"]
    assert stuck.losses() == [("skipped-records-total", "RefusedRecordError", 3)]


def test_an_application_that_is_not_stuck_is_told_so(folder: Path, penstock: Penstock):
    penstock("topics", "produce", "lines", "--value", "str", stdin="a\n")
    (folder / "app.py").write_text(
        "from penstock import StreamsBuilder\nbuilder = StreamsBuilder()\nbuilder.stream('lines').to('out')\n"
    )
    told = penstock("publish", "app")
    assert (told.code, told.out) == (1, [])
    assert "found no commit of an application" in told.err[0]
