"""Session stores record by record, against a plain dictionary under any sequence of calls (KIP-94)."""

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import initialize, invariant, rule

from penstock.columns.column import ValuesColumn
from penstock.errors import SerdeError, StoreError
from penstock.record import SessionKey, Windowed
from penstock.serdes import INT, JSON, STR
from penstock.state.kinds.session import SessionStore
from penstock.state.records import record_view
from support.record_machine import RecordMachine

RETENTION, INTERVAL = 20, 8
texts = st.sampled_from(["", "a", "ab", "b"])
times = st.integers(0, 60)
sessions = st.builds(lambda key, start, more: SessionKey(key, start, start + more), texts, times, st.integers(0, 9))


class SessionMachine(RecordMachine):
    """The model is a dictionary by session, and the store's stream time."""

    keys, values = texts, st.integers(-2, 2)
    key, value = STR, INT
    in_memory = False
    gap = None

    def new_store(self):
        return SessionStore("store", RETENTION, self.in_memory, INTERVAL, self.gap)

    def new_view(self, store):
        return record_view(store, self.key, self.value)

    def new_model(self):
        return {}, -1

    @initialize()
    def start(self):
        super().start()

    def rows(self, reverse=False):
        rows, now = self.current
        visible = [session for session in rows if session.end > now - RETENTION]

        def place(session):
            name = session.key.encode()
            if self.in_memory:
                return session.end, name, session.start
            return session.end // INTERVAL, name, session.end, session.start

        return [(session, rows[session]) for session in sorted(visible, key=place, reverse=reverse)]

    def of(self, key, earliest_end=0, latest_start=2**63):
        found = [row for row in self.rows() if row[0].key == key and row[0].end >= earliest_end]
        return sorted(
            (row for row in found if row[0].start <= latest_start), key=lambda row: (row[0].end, row[0].start)
        )

    def write(self, session, value, moves=True) -> None:
        rows, now = self.current
        now = max(now, session.end) if moves else now
        rows.pop(session, None)
        if value is not None and session.end > now - RETENTION:
            rows[session] = value
        self.current = rows, now

    @rule(data=st.data(), session=sessions)
    def put(self, data, session) -> None:
        value = data.draw(st.none() | self.values)
        self.view.put(session, value)
        self.write(session, value)

    @rule(session=sessions)
    def remove(self, session) -> None:
        self.view.remove(Windowed(*session))
        self.write(session, None, moves=not self.in_memory)

    @rule(data=st.data())
    def remove_one_that_is_there(self, data) -> None:
        if self.rows():
            session, _ = data.draw(st.sampled_from(self.rows()))
            self.view.remove(session)
            self.write(session, None)

    @rule(key=texts, earliest=times, latest=times)
    def find_sessions(self, key, earliest, latest) -> None:
        expected = self.of(key, earliest, latest)
        assert list(self.view.find_sessions(key, earliest, latest)) == expected
        assert list(self.view.backward_find_sessions(key, earliest, latest)) == expected[::-1]

    @rule(key=texts)
    def fetch(self, key) -> None:
        assert list(self.view.fetch(key)) == self.of(key)
        assert list(self.view.backward_fetch(key)) == self.of(key)[::-1]

    @rule(session=sessions)
    def fetch_session(self, session) -> None:
        assert self.view.fetch_session(*session) == dict(self.rows()).get(session)

    @rule(earliest=times)
    def find_of_many(self, earliest) -> None:
        for key in ["", "a", "ab", "b", *(f"k{number}" for number in range(30))]:
            assert list(self.view.find_sessions(key, earliest)) == self.of(key, earliest)

    @rule(low=st.none() | texts, high=st.none() | texts, earliest=times, latest=times)
    def find_in_range(self, low, high, earliest, latest) -> None:
        calls = self.view.find_sessions_in_range, self.view.backward_find_sessions_in_range
        for reverse, call in enumerate(calls):
            rows = [row for row in self.rows(bool(reverse)) if row[0].end >= earliest and row[0].start <= latest]
            rows = [row for row in rows if (low is None or row[0].key >= low) and (high is None or row[0].key <= high)]
            assert list(call(low, high, earliest, latest)) == rows

    @rule(data=st.data(), session=sessions)
    def write_while_iterating(self, data, session) -> None:
        one, every = self.view.fetch(session.key), self.view.fetch_range()
        expected = self.of(session.key), self.rows()
        self.put(data, session)
        assert (list(one), list(every)) == expected

    @invariant()
    def all_rows_are_there(self) -> None:
        assert list(self.view.fetch_range()) == self.rows()
        assert list(self.view.backward_fetch_range()) == self.rows(reverse=True)


class InMemoryMachine(SessionMachine):
    in_memory = True


class NarrowMachine(SessionMachine):
    """The store of a table, with several rows for a key in a segment."""

    gap = 0
    values, value = st.dictionaries(st.sampled_from("xy"), st.integers(0, 3), max_size=2), JSON


class WithoutADiskMachine(SessionMachine):
    persistent = False


for machine in (SessionMachine, InMemoryMachine, NarrowMachine):
    machine.TestCase.settings = settings(max_examples=settings.default.max_examples // 4)

TestOverADatabase = pytest.mark.kip("94-06", "892-07", "KS-03")(SessionMachine.TestCase)
TestInMemory = pytest.mark.kip("94-06", "KS-03")(InMemoryMachine.TestCase)
TestOfATable = NarrowMachine.TestCase
TestWithoutADisk = WithoutADiskMachine.TestCase


def opened(**store):
    view = record_view(SessionStore("visits", **{"retention": 60_000} | store), STR, INT)
    view.begin()
    return view


@pytest.mark.kip("94-06")
def test_a_session_lies_in_the_segment_of_its_end_as_in_the_texts_table():
    store = SessionStore("visits", retention=5000, segment_interval=1000)
    view = record_view(store, STR, INT)
    view.begin()
    for end in (0, 500, 1000, 2000):
        view.put(SessionKey("a", 0, end), end)
    view.end()
    segments = {name: list(piece.scan()) for name, piece in store.families().items()}
    assert {name: len(rows) for name, rows in segments.items()} == {"visits/0": 1, "visits/1": 1, "visits/2": 1}
    view.begin()
    assert [session.end for session, _ in view.fetch("a")] == [0, 500, 1000, 2000]


@pytest.mark.kip("94-06")
def test_a_session_that_ended_before_the_retention_period_is_not_added():
    view = opened(retention=1000, segment_interval=1000)
    view.put(SessionKey("a", 0, 3000), 1)
    view.put(SessionKey("a", 1500, 2000), 2)
    view.put(SessionKey("a", 1500, 2001), 3)
    assert [value for _, value in view.fetch("a")] == [3, 1]


CALLS = {
    "put": lambda view: view.put(SessionKey("a", 0, 1), 1),
    "remove": lambda view: view.remove(SessionKey("a", 0, 1)),
    "find_sessions": lambda view: view.find_sessions("a", 0, 9),
    "backward_find_sessions": lambda view: view.backward_find_sessions("a", 0, 9),
    "fetch": lambda view: view.fetch("a"),
    "backward_fetch": lambda view: view.backward_fetch("a"),
    "fetch_session": lambda view: view.fetch_session("a", 0, 1),
    "fetch_range": lambda view: view.fetch_range("a", "b"),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_view_that_is_kept_beyond_its_chunk_says_where_it_may_be_used(call):
    view = opened()
    view.put(SessionKey("a", 0, 1), 1)
    call(view)
    view.end()
    with pytest.raises(StoreError, match=r"'visits' can only be used while its processor works on a record"):
        call(view)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda view: view.put(None, 1), "the session must not be None"),
        (lambda view: view.put(SessionKey(None, 0, 1), 1), "the key must not be None"),
        (lambda view: view.remove(None), "the session must not be None"),
        (lambda view: view.fetch(None), "the key must not be None"),
        (lambda view: view.find_sessions(None, 0, 1), "the key must not be None"),
        (lambda view: view.fetch_session(None, 0, 1), "the key must not be None"),
        (lambda view: view.put(("a", 0, 1), 1), r"is a SessionKey\(key, start, end\); got \('a', 0, 1\) of type tuple"),
        (lambda view: view.put(SessionKey("a", 2, 1), 1), "must not end before it starts"),
        (lambda view: view.put(SessionKey("a", -1, 1), 1), "the start of a session"),
        (lambda view: view.put(SessionKey("a", 0, "1"), 1), "the end of a session"),
    ],
)
def test_what_is_no_session_is_refused(call, message):
    view = opened()
    with pytest.raises(StoreError, match=message):
        call(view)
    assert list(view.fetch_range()) == []


def test_a_put_of_the_wrong_type_raises_there_and_changes_nothing():
    view = opened(retention=10)
    view.put(SessionKey("a", 0, 1), 1)
    for wrong in [(SessionKey(7, 0, 1), 1), (SessionKey("a", 0, 1), "x"), (SessionKey("a", 0, 99), "x")]:
        with pytest.raises(SerdeError):
            view.put(*wrong)
    assert list(view.fetch_range()) == [(SessionKey("a", 0, 1), 1)]


def test_the_sessions_of_many_keys_are_loaded_at_once(monkeypatch):
    store = SessionStore("visits", retention=60_000)
    view = record_view(store, STR, INT)
    keys = [f"key-{number}" for number in range(100)]
    view.begin()
    for key in keys:
        view.put(SessionKey(key, 0, 5), 1)
    view.end()
    loads, load = [], store.load
    monkeypatch.setattr(
        store, "load", lambda keys, *more, **named: loads.append(len(keys)) or load(keys, *more, **named)
    )
    view.begin(ValuesColumn(keys, STR))
    assert [len(list(view.find_sessions(key, 0, 9))) for key in keys] == [1] * 100
    assert loads == [1] * 15 + [100]


def test_reading_makes_no_rows():
    store = SessionStore("visits", retention=60_000)
    view = record_view(store, STR, INT)
    view.begin()
    view.put(SessionKey("a", 0, 5), 1)
    view.end()
    view.begin()
    before = store.nbytes
    for number in range(1000):
        list(view.fetch(f"key-{number}"))
    assert store.nbytes == before
