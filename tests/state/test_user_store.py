"""Stores that users bring: what they are given when, and how they are brought to the newest commit (KIP-892)."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

from penstock import ConfigError, StateStoreContext, StoreError, TopicPartition
from penstock.settings import StateSettings
from penstock.state.kinds.key_value import KeyValueStore
from penstock.state.kinds.own.key_value import UserStore
from penstock.state.task_context import TaskContext
from penstock.state.task_state import TaskState
from support.checkpoint import Checkpoint
from support.own_stores import DictStore, OldStore, SqliteStore, Supplier, TransactionalDictStore
from support.rows import keys_of, values_of

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

CHANGELOG = TopicPartition("app-own-changelog.application", 0)
NEVER = StateSettings(flush_commits=1_000, snapshot_commits=1_000)
EACH = StateSettings(flush_commits=1, snapshot_commits=1_000)


class Counting:
    """What a store's user counts: calls of ``put``, and the offsets of ``commit``."""

    puts: list[bytes]
    commits: list[Any]

    def put(self, key: bytes, value: bytes | None) -> None:
        self.puts.append(key)
        super().put(key, value)


class InMemory(Counting, DictStore):
    def __init__(self, name: str):
        super().__init__(name)
        self.puts, self.commits = [], []

    def commit(self, changelog_offsets: Any) -> None:
        self.commits.append(dict(changelog_offsets))


class Remote(InMemory):
    """One that is somewhere else: its rows stay whatever becomes of the task's folder, and it knows where it is."""

    persistent = True
    rows_of_all: dict[str, dict[bytes, bytes]] = {}
    offsets_of_all: dict[str, dict[TopicPartition, int]] = {}

    def init(self, context: StateStoreContext, root: Any) -> None:
        super().init(context, root)
        self.rows = self.rows_of_all.get(self.name, {})

    def put(self, key: bytes, value: bytes | None) -> None:
        super().put(key, value)
        self.rows_of_all[self.name] = self.rows

    def manages_offsets(self) -> bool:
        return True

    def get_committed_offset(self, topic_partition: TopicPartition) -> int | None:
        return self.offsets_of_all.get(self.name, {}).get(topic_partition)

    def commit(self, changelog_offsets: Any) -> None:
        super().commit(changelog_offsets)
        self.offsets_of_all.setdefault(self.name, {}).update(changelog_offsets)


@pytest.fixture(autouse=True)
def nothing_is_remote():
    Remote.rows_of_all, Remote.offsets_of_all = {}, {}


def opened(checkpoint: Checkpoint, kind: Any, folder: Any = None) -> tuple[TaskState, Any]:
    """The task's state, and the user's object in it."""
    supplier = Supplier(kind)
    context = TaskContext("app", "0_0", {"processing_guarantee": "exactly_once"})
    stores, place = [UserStore("own", supplier)], folder or checkpoint.folder
    state = TaskState("0_0", stores, checkpoint.settings, place, checkpoint.storage, context)
    try:
        state.open(checkpoint.application, checkpoint.newest, checkpoint.snapshot, checkpoint.since)
    except BaseException:
        state.abandon()
        raise
    return state, supplier.made[-1]


def write(state: TaskState, **values: str | None) -> None:
    store, keys = state.stores["own"], [key.encode() for key in values]
    rows = values_of([(None if value is None else value.encode(), 7) for value in values.values()])
    store.put(store.locate(keys_of(keys)), rows)


def rows(store: Any) -> dict[str, str]:
    """What a user's object has, without timestamps."""
    skip = 0 if isinstance(store, (OldStore, Remote)) else 8
    return {key.decode(): value[skip:].decode() for key, value in store.all()}


def shown(state: TaskState) -> dict[str, str]:
    return {key.decode(): value.decode() for key, value, _ in state.stores["own"].rows()}


# --- when it is written -------------------------------------------------------------------------------------------


@pytest.mark.kip("892-03")
@pytest.mark.kip("892-06")
@pytest.mark.kip("892-11")
@pytest.mark.parametrize("kind", [InMemory, OldStore, SqliteStore, TransactionalDictStore])
def test_writes_are_read_at_once_and_reach_the_users_store_when_they_are_committed(checkpoint, kind):
    state, own = opened(checkpoint, kind)
    write(state, a="1", b="1")
    checkpoint.commit(state)
    write(state, a="2", b=None, c="2")
    assert (shown(state), rows(own)) == ({"a": "2", "c": "2"}, {"a": "1", "b": "1"})
    state.prepare()
    assert rows(own) == {"a": "1", "b": "1"}
    state.rollback()
    assert (shown(state), rows(own)) == ({"a": "1", "b": "1"}, {"a": "1", "b": "1"})
    write(state, b=None, d="3")
    state.prepare()
    checkpoint.commit(state)
    assert shown(state) == rows(own) == {"a": "1", "d": "3"}
    state.close()
    assert not own.is_open


@pytest.mark.kip("892-05")
def test_a_store_with_transactions_is_written_before_the_commit_so_that_a_failure_counts_for_nothing(checkpoint):
    state, own = opened(checkpoint, TransactionalDictStore)
    write(state, a="1")
    state.prepare()
    [transaction] = own.open_transactions()
    assert (transaction.approximate_num_uncommitted_entries, own.rows) == (1, {})
    checkpoint.commit(state)
    assert (own.offsets, rows(own)) == ({CHANGELOG: 0}, {"a": "1"})
    own.create_transaction = lambda: 1 / 0
    write(state, a="2")
    own.open_transactions()[0].put = lambda key, value: 1 / 0
    with pytest.raises(
        StoreError, match=r"'own' \(support.own_stores.TransactionalDictStore\) failed in put at .*:\d+"
    ):
        state.prepare()
    state.abandon()
    assert (own.is_open, rows(own)) == (False, {"a": "1"})


def test_rows_that_are_not_in_memory_any_more_are_read_from_the_users_store(checkpoint):
    checkpoint.settings = StateSettings(hot_max_bytes=1, flush_commits=1, snapshot_commits=1_000)
    state, own = opened(checkpoint, InMemory)
    write(state, a="1", b="1", c="1")
    checkpoint.commit(state)
    asked = []
    own.get = lambda key: asked.append(key) or own.rows.get(key)
    store = state.stores["own"]
    assert store.get(keys_of([b"b", b"x"])).data.to_pylist() == [b"1", None]
    assert asked == [b"b", b"x"]
    write(state, b="2")
    assert shown(state) == {"a": "1", "b": "2", "c": "1"}
    assert [key for key, _, _ in store.range(b"b", b"c")] == [b"b"]
    assert [key for key, _, _ in store.range(b"b", None, reverse=True)] == [b"c", b"b"]
    state.close()


@pytest.mark.parametrize(("kind", "timestamp"), [(InMemory, 7), (SqliteStore, 7), (OldStore, -1)])
def test_timestamps_are_kept_as_in_kafka_streams_unless_the_class_is_persistent_and_not_made_for_them(
    checkpoint, kind, timestamp
):
    state, _ = opened(checkpoint, kind)
    write(state, a="1")
    assert list(state.stores["own"].rows()) == [(b"a", b"1", timestamp)]
    checkpoint.commit(state)
    state.close()
    state, _ = opened(checkpoint, kind)
    assert list(state.stores["own"].rows()) == [(b"a", b"1", timestamp)]
    state.close()


# --- where it begins ----------------------------------------------------------------------------------------------


def three_commits(checkpoint: Checkpoint, kind: Any) -> Any:
    state, own = opened(checkpoint, kind)
    write(state, a="1", b="1")
    checkpoint.commit(state)
    write(state, a="2", b=None)
    checkpoint.commit(state)
    write(state, c="3")
    checkpoint.commit(state)
    state.abandon()
    return own


EXPECTED = {"a": "2", "c": "3"}


@pytest.mark.kip("892-02")
@pytest.mark.kip("892-08")
def test_a_store_that_manages_offsets_gets_only_the_delta_files_after_them(checkpoint):
    checkpoint.settings = NEVER
    three_commits(checkpoint, Remote)
    write_all = dict(Remote.rows_of_all["own"])
    state, own = opened(checkpoint, Remote)
    assert (own.puts, own.commits, rows(own)) == ([], [], EXPECTED)
    write(state, d="4")
    checkpoint.make_manifest(state)
    state.abandon()  # killed before the local commit
    assert Remote.rows_of_all["own"] == write_all
    state, own = opened(checkpoint, Remote)
    assert (own.puts, own.commits, rows(own)) == ([b"d"], [{CHANGELOG: 3}], {**EXPECTED, "d": "4"})
    assert shown(state) == rows(own)
    state.close()


@pytest.mark.kip("892-08")
def test_a_store_that_is_behind_the_database_gets_what_it_lacks_as_long_as_there_are_delta_files(checkpoint):
    checkpoint.settings = EACH
    three_commits(checkpoint, Remote)
    Remote.rows_of_all["own"] = {b"a": b"1", b"b": b"1"}
    Remote.offsets_of_all["own"] = {CHANGELOG: 0}
    state, own = opened(checkpoint, Remote)
    assert (own.puts, rows(own), shown(state)) == ([b"a", b"b", b"c"], EXPECTED, EXPECTED)
    assert own.commits == [{CHANGELOG: 1}, {CHANGELOG: 2}]
    state.close()
    assert opened(checkpoint, Remote)[1].puts == []


@pytest.mark.kip("892-08")
@pytest.mark.parametrize("offset", [{CHANGELOG: 0}, {}, {TopicPartition("app-own-changelog.before", 0): 0}])
def test_a_store_whose_delta_files_are_gone_or_that_does_not_know_where_it_is_gets_what_differs(checkpoint, offset):
    checkpoint.settings = StateSettings(flush_commits=1, snapshot_commits=1)
    three_commits(checkpoint, Remote)
    checkpoint.newest += 1  # a manifest that names the snapshot
    checkpoint.snapshot, checkpoint.commits = 2, []
    Remote.rows_of_all["own"] = {b"a": b"2", b"b": b"1", b"x": b"?"}
    Remote.offsets_of_all["own"] = dict(offset)
    state, own = opened(checkpoint, Remote)
    assert (own.puts, rows(own), shown(state)) == ([b"b", b"x", b"c"], EXPECTED, EXPECTED)
    assert own.get_committed_offset(CHANGELOG) == 2
    state.close()


@pytest.mark.kip("892-08")
def test_a_store_elsewhere_goes_on_with_a_task_on_another_machine(checkpoint, tmp_path):
    checkpoint.settings = NEVER
    three_commits(checkpoint, Remote)
    state, own = opened(checkpoint, Remote, tmp_path / "elsewhere" / "task")
    assert (own.puts, rows(own), shown(state)) == ([], EXPECTED, EXPECTED)
    write(state, a="9")
    checkpoint.commit(state)
    state.close()
    own_rows = dict(Remote.rows_of_all["own"])
    Remote.rows_of_all, Remote.offsets_of_all = {}, {}
    state, own = opened(checkpoint, Remote, tmp_path / "elsewhere" / "task")  # from what this machine's database has
    assert own.rows == own_rows
    state.close()


@pytest.mark.kip("892-08")
@pytest.mark.parametrize("settings", [NEVER, EACH])
@pytest.mark.parametrize("kind", [InMemory, OldStore, SqliteStore, TransactionalDictStore])
def test_every_kind_of_store_is_brought_to_the_newest_commit(checkpoint, kind, settings):
    checkpoint.settings = settings
    three_commits(checkpoint, kind)
    state, own = opened(checkpoint, kind)
    assert (rows(own), shown(state), state.at) == (EXPECTED, EXPECTED, 2)
    state.close()
    shutil.rmtree(checkpoint.folder.parent / "task.stores")
    state, own = opened(checkpoint, kind)
    assert (rows(own), shown(state)) == (EXPECTED, EXPECTED)
    state.close()


def test_a_class_that_registers_a_callback_gets_what_is_restored_there_and_the_rest_by_put(checkpoint):
    class Registered(InMemory):
        def init(self, context: StateStoreContext, root: Any) -> None:
            super().init(context, root)
            self.restored: list[tuple[bytes, bytes | None]] = []
            context.register(root, self.restore)

        def restore(self, key: bytes, value: bytes | None) -> None:
            self.restored.append((key, value and value[8:]))
            DictStore.put(self, key, value)

    checkpoint.settings = StateSettings(flush_commits=2, snapshot_commits=1_000)
    three_commits(checkpoint, Registered)  # two of them are in the database, the last one in its delta file
    state, own = opened(checkpoint, Registered)
    assert (own.restored, own.puts, rows(own)) == ([(b"a", b"2"), (b"c", b"3")], [], EXPECTED)
    write(state, d="4")
    checkpoint.commit(state)
    assert (len(own.restored), own.puts) == (2, [b"d"])
    state.close()


def test_a_store_that_is_ahead_of_all_manifests_is_an_error_and_stays_as_it_is(checkpoint):
    three_commits(checkpoint, Remote)
    shutil.rmtree(checkpoint.folder)
    checkpoint.newest, checkpoint.commits = 1, checkpoint.commits[:2]
    with pytest.raises(
        StoreError, match=r"'own' is at commit 2 of app-own-changelog.* of commit 1: manifests are miss"
    ):
        opened(checkpoint, Remote)
    assert {key.decode(): value.decode() for key, value in Remote.rows_of_all["own"].items()} == EXPECTED


@pytest.mark.parametrize("is_first_start", [True, False])
def test_rows_of_somebody_else_in_a_store_that_is_to_begin_are_an_error_and_stay(checkpoint, is_first_start):
    if not is_first_start:  # the store is new in an application that has others
        state = TaskState("0_0", [KeyValueStore("other")], EACH, checkpoint.folder, checkpoint.storage)
        state.open(checkpoint.application, -1, -1, checkpoint.since)
        checkpoint.commit(state)
        state.close()
    Remote.rows_of_all["own"] = {b"x": b"?"}
    for _ in range(2):
        with pytest.raises(StoreError, match="'own' of task 0_0 has rows, but nothing shows that this app"):
            opened(checkpoint, Remote)
        assert Remote.rows_of_all["own"] == {b"x": b"?"}


@pytest.mark.parametrize("kind", [OldStore, SqliteStore])
def test_what_another_application_left_in_the_folder_of_stores_goes_with_its_database(checkpoint, kind):
    """As after a start with another checkpoint and the same state directory."""
    checkpoint.settings = EACH
    three_commits(checkpoint, kind)
    shutil.rmtree(checkpoint.storage.root)
    checkpoint.application, checkpoint.newest, checkpoint.commits = "another", -1, []
    state, own = opened(checkpoint, kind)
    assert rows(own) == {}
    write(state, d="4")
    checkpoint.commit(state)
    state.close()
    state, own = opened(checkpoint, kind)
    assert rows(own) == {"d": "4"}
    state.close()


def test_rows_beside_a_damaged_database_are_this_applications_without_offsets_too(checkpoint, caplog):
    """A kill comes between a store's first commit and its offsets, and the database does not survive it either."""
    checkpoint.settings = NEVER
    three_commits(checkpoint, OldStore)
    (checkpoint.folder.parent / "task.stores" / ".checkpoint").unlink()
    (checkpoint.folder / "CURRENT").write_text("torn")
    state, own = opened(checkpoint, OldStore)
    assert rows(own) == EXPECTED
    assert "rebuilt from the checkpoint" in caplog.text
    state.close()


# --- .checkpoint --------------------------------------------------------------------------------------------------


@pytest.mark.kip("892-09")
def test_a_persistent_store_that_does_not_manage_offsets_has_a_checkpoint_file_as_kafka_writes_it(checkpoint):
    three_commits(checkpoint, OldStore)
    file = checkpoint.folder.parent / "task.stores" / ".checkpoint"
    assert file.read_text() == "0\n1\napp-own-changelog.application 0 2\n"
    file.write_text("0\n1\napp-own-changelog.application 0 0\n")
    counted = type("Counted", (Counting, OldStore), {"puts": []})
    state, own = opened(checkpoint, counted)
    assert (own.puts, rows(own)) == ([b"a", b"b", b"c"], EXPECTED)  # what came after commit 0, and no more
    assert file.read_text().endswith(" 2\n")
    state.close()


@pytest.mark.kip("892-09")
@pytest.mark.parametrize("text", ["", "0\n2\napp-own-changelog.application 0 2\n", "1\n0\n", "0\n1\nx y z\n", "\0\0"])
def test_a_damaged_checkpoint_file_costs_a_comparison_and_nothing_else(checkpoint, caplog, text):
    checkpoint.settings = EACH
    three_commits(checkpoint, OldStore)
    file = checkpoint.folder.parent / "task.stores" / ".checkpoint"
    file.write_text(text)
    counted = type("Counted", (Counting, OldStore), {"puts": []})
    state, own = opened(checkpoint, counted)
    assert (own.puts, rows(own)) == ([], EXPECTED)
    assert ".checkpoint is damaged" in caplog.text
    state.close()


@pytest.mark.kip("892-09")
def test_stores_that_manage_offsets_and_those_in_memory_have_no_checkpoint_file(checkpoint):
    for kind in (SqliteStore, InMemory, TransactionalDictStore):
        checkpoint.folder = checkpoint.folder.with_name(kind.__name__)
        three_commits(checkpoint, kind)
        checkpoint.newest, checkpoint.commits = -1, []
    assert not list(checkpoint.folder.parent.rglob(".checkpoint"))


class Rewritten(SqliteStore):
    """The class that ``OldStore`` becomes: it takes the old file up, and manages offsets from now on."""

    def init(self, context: StateStoreContext, root: Any) -> None:
        super().init(context, root)
        old = OldStore(self.name)
        old.init(context, old)
        if old.rows and self.get_committed_offset(CHANGELOG) is None:
            self.write({key: (7).to_bytes(8, "big") + value for key, value in old.rows.items()}, {})


@pytest.mark.kip("892-09")
def test_offsets_of_a_checkpoint_file_move_once_into_a_store_that_manages_offsets_and_has_none(checkpoint):
    checkpoint.settings = NEVER
    three_commits(checkpoint, OldStore)
    file = checkpoint.folder.parent / "task.stores" / ".checkpoint"
    counted = type("Counted", (Counting, Rewritten), {"puts": []})
    state, own = opened(checkpoint, counted)
    assert (own.get_committed_offset(CHANGELOG), rows(own), own.puts) == (2, EXPECTED, [])
    assert not file.exists()
    write(state, d="4")
    checkpoint.commit(state)
    state.close()
    file.write_text("0\n2\napp-own-changelog.application 0 0\napp-other-changelog.application 0 5\n")
    state, own = opened(checkpoint, counted)
    assert (own.get_committed_offset(CHANGELOG), rows(own)) == (3, {**EXPECTED, "d": "4"})
    assert file.read_text() == "0\n1\napp-other-changelog.application 0 5\n"
    state.close()


# --- wrong use ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (
            lambda name: {},
            r"get\(\) of its supplier gave {}\. It must be of a class that extends penstock\.KeyValueStore",
        ),
        (lambda name: InMemory("other"), r"whose name is 'other'"),
        (type("M", (InMemory,), {"persistent": lambda self: True}), r"persistent of .*\.M is a method"),
    ],
)
def test_a_supplier_that_gives_something_else_is_refused(kind, says):
    with pytest.raises(ConfigError, match=says):
        UserStore("own", Supplier(kind))


@pytest.mark.parametrize(
    ("method", "wrong", "says"),
    [
        ("get", lambda self, key: "text", "gave 'text' for the key b'a': values are bytes"),
        ("get", lambda self, key: 1 / 0, r"failed in get at .*test_user_store.py:\d+: ZeroDivisionError"),
        (
            "range",
            lambda self, low=None, high=None: iter([(b"b", b"1" * 8), (b"a", b"1" * 8)]),
            "after b'b': range must",
        ),
    ],
)
def test_what_a_users_class_does_wrong_is_said_with_where(checkpoint, method, wrong, says):
    checkpoint.settings = StateSettings(hot_max_bytes=1, flush_commits=1, snapshot_commits=1_000)
    state, own = opened(checkpoint, InMemory)
    write(state, a="1", b="1")
    checkpoint.commit(state)
    setattr(own, method, wrong.__get__(own))
    store = state.stores["own"]
    with pytest.raises(StoreError, match=says):
        store.get(keys_of([b"a"])) if method == "get" else list(store.range())
    state.abandon()


def test_those_that_only_read_leave_the_users_store_alone(checkpoint):
    three_commits(checkpoint, SqliteStore)
    supplier = Supplier(SqliteStore)
    state = TaskState("0_0", [UserStore("own", supplier)], NEVER, checkpoint.folder, checkpoint.storage)
    state.open(checkpoint.application, checkpoint.newest, checkpoint.snapshot, checkpoint.since)
    assert (shown(state), supplier.made[-1].is_open) == (EXPECTED, False)
    state.abandon()


@pytest.mark.kip("44-06")
def test_a_class_that_manages_offsets_and_does_not_tell_them_is_refused():
    class Silent(DictStore):
        persistent = True

        def manages_offsets(self) -> bool:
            return True

    class Telling(Silent):
        def committed_offset(self, topic_partition: TopicPartition) -> int | None:
            return None

    with pytest.raises(ConfigError, match=r"that it manages_offsets\(\), and does not tell.*committed_offset"):
        UserStore("own", Supplier(Silent))
    UserStore("own", Supplier(Telling))
