"""Committed views move on with the application: of every kind of store, in its process and in any other."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct, to_builtins

from penstock import SessionWindows, StreamsBuilder, open_store, produce
from penstock.engine.local import LocalApplication
from penstock.engine.shared.formats import formats_of, made_from
from penstock.errors import ConfigError, CorruptDataError, StoreError
from penstock.log.file.log import FileLog
from penstock.plan.topology import Topology
from penstock.query.application import ApplicationStores
from penstock.query.commits import OwnCommits
from penstock.query.position import Position
from penstock.query.stores import view_of
from penstock.query.versions import Pinned, Version
from penstock.settings import Settings
from penstock.storage.base import LocalStorage
from support.folders import MEMORY
from support.topologies import EXAMPLES, topology_of

pytestmark = pytest.mark.slow


@cache
def kinds(name: str) -> frozenset[str]:
    """The kinds of stores of an example, and in which ways they are made."""
    formats = formats_of(topology_of(name)).values()
    return frozenset(f"{one.kind} {bool(one.arguments.get('in_memory'))} {one.is_everywhere}" for one in formats)


def chosen() -> Iterator[str]:
    """Examples that together have stores of all kinds, made in all ways."""
    seen: set[str] = set()
    for name in sorted(EXAMPLES, key=lambda name: (-len(kinds(name)), name)):
        if not kinds(name) <= seen:
            seen |= kinds(name)
            yield name


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=MEMORY) as name:
        yield Path(name)


class Program:
    """An application over a file log of two partitions, which commits when it is told to."""

    def __init__(self, folder: Path, topology: Topology, **settings: Any):
        self.topology = topology
        self.log = FileLog(folder / "log")
        self.settings = Settings.load(environment={}, statestore_cache_max_bytes=0, **settings)
        self.storage = LocalStorage(folder / "checkpoint")
        for topic in topology.source_topics:
            produce([], topic, str, int, self.log, partitions=2)
        self.running = LocalApplication(topology, "app", self.settings, self.log, self.storage, folder / "state")

    def process(self, *rows: tuple[str, Any, int], topic: str = "in") -> None:
        produce(rows, topic, str, int, self.log)
        self.running.run_until()

    def stores(self) -> ApplicationStores:
        return ApplicationStores(OwnCommits(self.running.coordinator))

    def of_the_tasks(self, name: str) -> list[Any]:
        """A store's rows as the tasks themselves have them."""
        self.running.settle()
        tasks = {task.state.task: task.state.stores for task in self.running.host.tasks()}
        has = {task: stores[name] for task, stores in sorted(tasks.items()) if name in stores}
        shape = self.stores().shapes()[name]
        kept = dict(list(has.items())[:1]) if shape.format.is_everywhere else has
        return rows_of(view_of(Pinned(Version(0, kept)), shape))


def rows_of(view: Any) -> list[Any]:
    """Its rows, with Structs as dicts: another process does not know their classes."""
    plain = [tuple(to_builtins(one) if isinstance(one, Struct) else one for one in row) for row in view.all()]
    return sorted(plain, key=repr)


@pytest.mark.kip("892-12")
@pytest.mark.kip("94-10")
@pytest.mark.parametrize("name", list(chosen()))
def test_views_of_every_kind_show_after_each_commit_what_the_tasks_have(name: str, folder: Path):
    chance = random.Random(name)
    program = Program(folder, topology_of(name), flush_commits=1, flush_rows=3, snapshot_commits=2)
    names = list(formats_of(program.topology))
    own, lazy = program.stores(), program.stores()
    live = ApplicationStores(own.commits, live=program.running.live)
    others = {name: open_store(folder / "checkpoint", name) for name in names}
    for turn in range(5):
        for topic in program.topology.source_topics:
            if topic not in program.topology.sink_topics:
                rows = [
                    (chance.choice("abc"), chance.choice([1, 2, 3, 0, None]), turn * 15 + chance.randrange(30))
                    for _ in range(5)
                ]
                produce(rows, topic, str, int, program.log)
        program.running.run_until()
        for store in names:
            expected = program.of_the_tasks(store)
            assert rows_of(own.view(store)) == expected, (turn, store)
            assert rows_of(live.view(store)) == expected, (turn, store, "asked of the tasks")
            assert rows_of(others[store]) == expected, (turn, store)
            assert turn % 2 or rows_of(lazy.view(store)) == expected, "after several commits"
    for view in others.values():
        view.close()
    own.close()
    lazy.close()
    program.running.close()


@pytest.mark.parametrize("name", list(chosen()))
def test_a_store_is_made_again_as_it_was_from_what_a_start_writes_down(name: str):
    for store, format_ in formats_of(topology_of(name)).items():
        made = made_from(store, format_)
        assert {key: getattr(made, key) for key in format_.arguments} == format_.arguments
        assert (made.name, type(made).__name__) == (store, format_.kind)


# --- isolation -----------------------------------------------------------------------------------------------------


KEYS = [f"account-{number}" for number in range(20)]


def accounts() -> Topology:
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=int).group_by_key().reduce(lambda sum_, value: sum_ + value, store="balances")
    return builder.build()


def transfers(chance: random.Random, count: int) -> list[tuple[str, int, int]]:
    """Records that take from one account what they give to another."""
    rows: list[tuple[str, int, int]] = []
    for _ in range(count):
        one, other = chance.sample(KEYS, 2)
        amount = chance.randrange(100)
        rows += [(one, -amount, 0), (other, amount, 0)]
    return rows


@pytest.mark.kip("892-12")
def test_threads_never_see_half_a_commit_while_the_program_goes_on(folder: Path):
    program = Program(folder, accounts(), flush_commits=2, flush_rows=5, snapshot_commits=4)
    program.process(*[(key, 0, 0) for key in KEYS])
    view = program.stores().view("balances")
    wrong: list[Any] = []
    looks = [0] * 4
    ended = threading.Event()

    def look(reader: int) -> None:
        last = -1
        try:
            while not ended.is_set() or not looks[reader]:
                with view.snapshot() as now:
                    balances = [value for _, value, _ in now.all()]
                    again = now.multi_get(KEYS)
                    if sum(balances) or sum(again) or len(balances) != len(KEYS) or now.commit < last:
                        wrong.append((now.commit, last, balances, again))
                    last = now.commit
                looks[reader] += 1
        except Exception as error:
            wrong.append(error)

    readers = [threading.Thread(target=look, args=[reader]) for reader in range(4)]
    for reader in readers:
        reader.start()
    chance = random.Random(7)
    for _ in range(25):
        program.process(*transfers(chance, 30))
    ended.set()
    for reader in readers:
        reader.join()
    assert (wrong, min(looks) > 0) == ([], True)


def visits() -> Topology:
    builder = StreamsBuilder()
    sessions = SessionWindows.of_inactivity_gap_and_grace("10 ms", "1 hour")
    builder.stream("in", key=str, value=int).group_by_key().windowed_by(sessions).count("visits")
    return builder.build()


@pytest.mark.kip("94-10")
def test_threads_never_see_half_a_merge_of_sessions_while_the_program_goes_on(folder: Path):
    """Each commit brings one record for each key, many of which unite sessions: two go and one comes, at once."""
    program = Program(folder, visits(), flush_commits=2, flush_rows=5, snapshot_commits=4)
    program.process(*[(key, 0, 0) for key in KEYS])
    view = program.stores().view("visits")
    wrong: list[Any] = []
    looks = [0] * 2
    ended = threading.Event()

    def look(reader: int) -> None:
        last = 0
        try:
            while not ended.is_set() or not looks[reader]:
                with view.snapshot() as now:
                    counts, own = dict.fromkeys(KEYS, 0), dict[str, list[Any]]()
                    for window, count in now.all():
                        counts[window.key] += count
                        own.setdefault(window.key, []).append((window.start, window.end))
                    again = sum(count for _, count in now.fetch(KEYS[reader]))
                    apart = all(
                        before[1] + 10 < after[0]
                        for some in map(sorted, own.values())
                        for before, after in pairwise(some)
                    )
                    if len({*counts.values(), again}) > 1 or again < last or not apart:
                        wrong.append((now.commit, last, counts, again, own))
                    last = again
                looks[reader] += 1
        except Exception as error:
            wrong.append(error)

    readers = [threading.Thread(target=look, args=[reader]) for reader in range(2)]
    for reader in readers:
        reader.start()
    chance = random.Random(7)
    for _ in range(8):
        program.process(*[(key, 0, chance.randrange(100)) for key in KEYS])
    ended.set()
    for reader in readers:
        reader.join()
    assert (wrong, min(looks) > 0) == ([], True)
    assert len(list(view.all())) < 9 * len(KEYS), "sessions were united"


READER = """
import sys, penstock
view, last, looks = penstock.open_store(sys.argv[1], "balances"), -1, 0
print("ready", flush=True)
while last < int(sys.argv[2]):
    with view.snapshot() as now:
        balances = [value for _, value, _ in now.all()]
        assert sum(balances) == 0 and len(balances) == 20, balances
        assert now.commit >= last
        looks += now.commit > last
        last = now.commit
print(looks, flush=True)
"""


@pytest.mark.kip("892-12")
def test_another_process_never_sees_half_a_commit_while_the_program_goes_on(folder: Path):
    program = Program(folder, accounts(), flush_commits=2, flush_rows=5, snapshot_commits=4)
    program.process(*[(key, 0, 0) for key in KEYS])
    last = program.running.coordinator.manifest.commit + 25
    reader = subprocess.Popen(
        [sys.executable, "-c", READER, str(folder), str(last)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert reader.stdout is not None
    assert reader.stdout.readline() == "ready\n"
    chance = random.Random(7)
    for _ in range(25):
        program.process(*transfers(chance, 30))
    out, errors = reader.communicate(timeout=60)
    assert (reader.returncode, errors) == (0, "")
    assert int(out) > 1


# --- opening -------------------------------------------------------------------------------------------------------


def counts(types: Any = int) -> Topology:
    builder = StreamsBuilder()
    builder.stream("in", key=str, value=types).group_by_key().count("counts")
    return builder.build()


def test_a_store_is_opened_by_the_applications_id_and_by_its_checkpoint(folder: Path, monkeypatch: pytest.MonkeyPatch):
    program = Program(folder, counts())
    shutil.rmtree(folder / "checkpoint")  # to lie where topology.start has it
    state = folder / ".penstock" / "app"
    program.storage = LocalStorage(state / "checkpoint")
    program.running = LocalApplication(program.topology, "app", program.settings, program.log, program.storage)
    program.process(("JFK", 1, 5))
    monkeypatch.chdir(folder)
    for application in ("app", state, str(state / "checkpoint"), state / "checkpoint"):
        with open_store(application, "counts") as store:
            assert list(store.all()) == [("JFK", 1, 5)]
            assert store.position() == Position({"in": {store.position().partitions("in").popitem()[0]: 0}})


def test_the_checkpoint_of_the_settings_is_shown_and_no_earlier_one_that_lies_with_the_state(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    (folder / "earlier").mkdir()
    earlier = Program(folder / "earlier", counts())
    earlier.process(("BOS", 2, 5))
    shutil.copytree(folder / "earlier" / "checkpoint", folder / ".penstock" / "app" / "checkpoint")
    program = Program(folder, counts())
    program.process(("JFK", 1, 5))
    (folder / "penstock.toml").write_text('checkpoint = "checkpoint"')
    monkeypatch.chdir(folder)
    with open_store("app", "counts") as store:
        assert list(store.all()) == [("JFK", 1, 5)]


def test_what_cannot_be_opened_is_told_with_the_way_out(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(folder)
    with pytest.raises(ConfigError, match=r"found no commit of an application 'app' in .* Give the application's id"):
        open_store("app", "counts")
    program = Program(folder, counts())
    with open_store(folder, "counts") as store:
        assert repr(store) == "<KeyValueView of store 'counts', nothing committed yet>"
        assert (store.get("JFK"), list(store.all())) == (None, [])
        program.process(("JFK", 1, 5))
        assert store.get("JFK") == 1
    with pytest.raises(StoreError, match="this view of the store 'counts' is closed; ask for the store again"):
        store.get("JFK")
    with pytest.raises(ConfigError, match="there is no store 'count'; the stores are counts"):
        open_store(folder, "count")
    for manifest in (folder / "checkpoint" / "manifests").iterdir():
        manifest.unlink()
    with pytest.raises(ConfigError, match=r"there is no commit in .*checkpoint: the application has not processed"):
        open_store(folder, "counts")


def test_a_damaged_delta_file_is_named_and_older_snapshots_stay(folder: Path):
    program = Program(folder, counts())
    program.process(("JFK", 1, 5))
    view = program.stores().view("counts")
    before = view.snapshot()
    produce([("JFK", 1, 6)], "in", str, int, program.log)
    program.running.run_until()
    newest = max((folder / "checkpoint" / "deltas").rglob("*.arrow"), key=lambda path: path.name)
    whole = newest.read_bytes()
    newest.write_bytes(whole[:-1])
    with pytest.raises(CorruptDataError, match=f"{newest.name} is torn"):
        view.get("JFK")
    assert before.get("JFK") == 1
    newest.write_bytes(whole)
    assert view.get("JFK") == 2


def test_a_view_that_slept_through_many_snapshots_wakes_up_at_the_newest_commit(folder: Path):
    program = Program(folder, counts(), flush_commits=1, snapshot_commits=2)
    program.process(("JFK", 1, 0))
    view = program.stores().view("counts")
    other = open_store(folder, "counts")
    assert (view.get("JFK"), other.get("JFK")) == (1, 1)
    asleep = view.snapshot()
    for at in range(1, 12):
        program.process(("JFK", 1, at))
    assert (view.get("JFK"), other.get("JFK"), asleep.get("JFK")) == (12, 12, 1)
    other.close()


def test_an_application_that_begins_anew_shows_its_new_state(folder: Path):
    program = Program(folder, counts())
    program.process(("JFK", 1, 0), ("LGA", 1, 0))
    other = open_store(folder, "counts")
    assert other.get("LGA") == 1
    program.running.close()
    shutil.rmtree(folder / "checkpoint")
    shutil.rmtree(folder / "state")
    shutil.rmtree(folder / "log")
    again = Program(folder, counts())
    for at in range(3):
        again.process(("JFK", 1, at))
    assert (other.get("JFK"), other.get("LGA")) == (3, None)
    other.close()


def test_a_damaged_snapshot_is_gone_back_from(folder: Path):
    program = Program(folder, counts(), flush_commits=1, snapshot_commits=2)
    for at in range(9):
        program.process(("JFK", 1, at), ("LGA", 1, at))
    damaged = 0
    for task in {path.parent for path in (folder / "checkpoint" / "snapshots").rglob("*.snapshot")}:
        newest = max(task.glob("*.snapshot"), key=lambda path: path.name)
        newest.write_bytes(newest.read_bytes()[:-1])
        damaged += 1
    assert damaged
    with open_store(folder, "counts") as store:
        assert (store.get("JFK"), store.get("LGA")) == (9, 9)
