"""Versioned stores record by record, against the rules of one key at a time, under any sequence of calls (KIP-914)."""

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import rule

from penstock.columns.column import ValuesColumn
from penstock.errors import SerdeError, StoreError
from penstock.serdes import INT, JSON, STR
from penstock.state.kinds.versioned.store import VersionedStore
from penstock.state.kinds.versioned.timeline import Timeline
from penstock.state.records import record_view
from penstock.state.shapes import VersionedRecord
from support.record_machine import RecordMachine

RETENTION, INTERVAL = 30, 10
NOT_PUT = -(2**63)
texts = st.sampled_from(["", "a", "ab"])
times = st.integers(0, 70)


class VersionedMachine(RecordMachine):
    """The model is a timeline for each key, which never forgets, and the store's stream time."""

    keys, values = texts, st.integers(-2, 2)
    key, value = STR, INT
    in_memory = False

    def new_store(self):
        return VersionedStore("store", RETENTION, INTERVAL, self.in_memory)

    def new_view(self, store):
        return record_view(store, self.key, self.value)

    def new_model(self):
        return {}, -1

    def version(self, key, as_of):
        """What is valid at a time, as far as the history reaches."""
        timelines, now = self.current
        timeline = timelines.get(key, Timeline())
        latest = timeline.latest
        if latest is not None and latest.valid_from <= as_of:
            return VersionedRecord(*latest)
        found = timeline.get(as_of)
        if found is None or as_of < now - RETENTION:
            return None
        return VersionedRecord(*found, min(end for end in timeline.older if end > as_of))

    def write(self, key, value, timestamp):
        """Put into the model, and say what the put returns."""
        timelines, now = self.current
        if timestamp < now - RETENTION:
            return NOT_PUT
        self.current = timelines, max(now, timestamp)
        return timelines.setdefault(key, Timeline()).put(value, timestamp)

    @rule(data=st.data(), key=texts, timestamp=times)
    def put(self, data, key, timestamp) -> None:
        value = data.draw(st.none() | self.values)
        assert self.view.put(key, value, timestamp) == self.write(key, value, timestamp)

    @rule(key=texts, timestamp=times)
    def delete(self, key, timestamp) -> None:
        expected = None if timestamp < self.current[1] - RETENTION else self.version(key, timestamp)
        assert self.view.delete(key, timestamp) == expected
        self.write(key, None, timestamp)

    @rule(key=texts)
    def get(self, key) -> None:
        assert self.view.get(key) == self.version(key, 2**63 - 1)

    @rule(key=texts, as_of=times)
    def get_as_of(self, key, as_of) -> None:
        assert self.view.get(key, as_of) == self.version(key, as_of)


class InMemoryMachine(VersionedMachine):
    in_memory = True
    values, value = st.dictionaries(st.sampled_from("xy"), st.integers(0, 3), max_size=2), JSON


class WithoutADiskMachine(VersionedMachine):
    persistent = False


for machine in (VersionedMachine, InMemoryMachine):
    machine.TestCase.settings = settings(max_examples=settings.default.max_examples // 2)

TestOverADatabase = pytest.mark.kip("914-12", "914-13", "892-07", "KS-03")(VersionedMachine.TestCase)
TestInMemory = pytest.mark.kip("914-13")(InMemoryMachine.TestCase)
TestWithoutADisk = WithoutADiskMachine.TestCase


def opened(retention=100, **store):
    view = record_view(VersionedStore("prices", retention, **store), STR, INT)
    view.begin()
    return view


@pytest.mark.kip("914-12")
def test_put_returns_until_when_a_version_is_valid():
    view = opened()
    assert view.put("a", 1, 50) == view.VALID_TO_UNDEFINED == -1
    assert view.put("a", 3, 70) == -1
    assert view.put("a", 2, 60) == 70
    assert view.put("a", 0, 10) == 50
    assert view.put("a", None, 65) == 70
    assert view.put("a", 4, 70) == -1
    assert view.put("b", 1, 200) == -1
    assert view.put("a", 9, 99) == view.NOT_PUT == -(2**63)
    assert view.put("a", 9, 100) == -1
    assert view.get("a") == VersionedRecord(9, 100)


@pytest.mark.kip("914-12")
def test_what_the_grace_period_refuses_is_not_put():
    view = opened(retention=10)
    view.put("a", 1, 100)
    assert view.put("a", 2, 89) == view.NOT_PUT
    assert view.put("b", 2, 89) == view.NOT_PUT
    assert view.put("b", 2, 90) == -1
    assert (view.get("b", 89), view.get("b", 95)) == (None, VersionedRecord(2, 90))


@pytest.mark.kip("914-13")
def test_a_deletion_returns_the_version_that_was_valid_then():
    view = opened()
    view.put("a", 1, 10)
    view.put("a", 2, 20)
    assert view.delete("a", 15) == VersionedRecord(1, 10, 20)
    assert view.delete("a", 15) is None
    assert (view.get("a", 12), view.get("a", 17)) == (VersionedRecord(1, 10, 15), None)
    assert view.delete("a", 30) == VersionedRecord(2, 20)
    assert view.get("a") is None
    view.put("b", 1, 500)
    assert view.delete("a", 25) is None


@pytest.mark.kip("914-13")
def test_a_look_up_beyond_the_history_finds_nothing_but_a_latest_version_that_is_older_still():
    view = opened(retention=10)
    view.put("a", 1, 5)
    view.put("a", 2, 15)
    view.put("b", 3, 6)
    view.put("c", 4, 20)
    assert (view.get("a", 10), view.get("a", 9), view.get("a", 20)) == (
        VersionedRecord(1, 5, 15),
        None,
        VersionedRecord(2, 15),
    )
    assert view.get("b", 7) == VersionedRecord(3, 6)


@pytest.mark.kip("914-13")
def test_each_store_has_a_stream_time_of_its_own_and_keeps_it_across_chunks():
    one, other = opened(retention=10), opened(retention=10)
    one.put("a", 1, 100)
    assert (one.put("b", 1, 50), other.put("b", 1, 50)) == (one.NOT_PUT, -1)
    one.end()
    one.begin(ValuesColumn(["a", "b", None], STR))
    assert one.put("b", 1, 50) == one.NOT_PUT
    assert one.get("a") == VersionedRecord(1, 100)


CALLS = {
    "get": lambda view: view.get("a"),
    "get_as_of": lambda view: view.get("a", 5),
    "put": lambda view: view.put("a", 1, 5),
    "delete": lambda view: view.delete("a", 5),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_view_that_is_kept_beyond_its_chunk_says_where_it_may_be_used(call):
    view = opened()
    view.put("a", 1, 5)
    call(view)
    view.end()
    with pytest.raises(StoreError, match=r"'prices' can only be used while its processor works on a record"):
        call(view)


@pytest.mark.parametrize("name", ["get", "put", "delete"])
def test_none_is_no_key(name):
    arguments = {"put": (1, 0), "delete": (0,)}.get(name, ())
    with pytest.raises(StoreError, match=r"must not be None: store 'prices'"):
        getattr(opened(), name)(None, *arguments)


def test_a_put_of_the_wrong_type_raises_there_and_changes_nothing():
    view = opened(retention=10)
    view.put("a", 1, 5)
    for wrong in [(7, 1, 5), ("a", "x", 5), ("a", "x", 99), (7, 1, 99)]:
        with pytest.raises(SerdeError):
            view.put(*wrong)
    for timestamp in (-1, 2**63, "0", None, 1.5):
        with pytest.raises(StoreError, match="the timestamp of a version in store 'prices' must be an int"):
            view.put("b", 1, timestamp)
    assert (view.get("a"), view.get("b"), view.put("b", 1, 5)) == (VersionedRecord(1, 5), None, -1)
