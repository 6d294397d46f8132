"""The store of subscriptions finds those to some foreign keys, wherever they lie."""

import random
from pathlib import Path

import pytest

from penstock.state.columns.rows import Keys
from penstock.state.database import Database
from penstock.state.kinds.subscription import SubscriptionStore, combined_keys
from support.rows import binary, values_of

STORE = "subscriptions"
FOREIGN = [b"", b"ann", b"bob", b"bo", b"b"]
LEFT = [b"1", b"12", b"2", b"", b"b1"]


def subscribe(store: SubscriptionStore, rows: dict[tuple[bytes, bytes], bytes | None]):
    """Write rows, whose keys are a foreign key and a left key; None takes one away."""
    keys = Keys(combined_keys(binary(*(foreign for foreign, _ in rows)), binary(*(left for _, left in rows))))
    store.put(store.locate(keys), values_of((value, 1) for value in rows.values()))
    return keys


def subscribers(store: SubscriptionStore, *foreign: bytes, more: Keys | None = None):
    found = store.subscribers(Keys(binary(*foreign)), more)
    named = [foreign[number] for number in found.foreign.tolist()]
    return list(zip(named, found.left.to_pylist(), found.values.data.to_pylist(), strict=True))


def test_subscriptions_come_by_the_foreign_keys_asked_for_and_then_by_the_left_keys():
    store = SubscriptionStore(STORE)
    subscribe(store, {(b"bo", b"b"): b"1", (b"ann", b"2"): b"2", (b"ann", b"1"): b"3", (b"b", b"ob"): b"4"})
    assert subscribers(store, b"b", b"carl", b"ann") == [
        (b"b", b"ob", b"4"),
        (b"ann", b"1", b"3"),
        (b"ann", b"2", b"2"),
    ]
    assert subscribers(store, b"carl") == []


def test_a_subscription_that_was_taken_away_comes_only_when_it_is_asked_for():
    store = SubscriptionStore(STORE)
    subscribe(store, {(b"ann", b"1"): b"1", (b"ann", b"2"): b"2"})
    changed = subscribe(store, {(b"ann", b"1"): None})
    assert subscribers(store, b"ann") == [(b"ann", b"2", b"2")]
    assert subscribers(store, b"ann", more=changed) == [(b"ann", b"1", None), (b"ann", b"2", b"2")]


@pytest.mark.parametrize("seed", range(20))
def test_what_is_found_does_not_depend_on_commits_rollbacks_and_what_lies_on_disk(tmp_path: Path, seed: int):
    rng = random.Random(seed)
    database = Database(tmp_path / "db")
    store = SubscriptionStore(STORE)
    store.open(database)
    committed: dict[tuple[bytes, bytes], bytes] = {}
    rows = dict(committed)
    for step in range(60):
        what = rng.choice(["put", "put", "commit", "rollback", "flush", "ask", "ask"])
        if what == "put":
            changed = {(rng.choice(FOREIGN), rng.choice(LEFT)): rng.choice([None, b"%d" % step]) for _ in range(4)}
            subscribe(store, changed)
            rows = {key: value for key, value in {**rows, **changed}.items() if value is not None}
        elif what == "ask":
            asked = rng.sample(FOREIGN, 3)
            expected = [
                (foreign, left, value)
                for wanted in asked
                for (foreign, left), value in sorted(rows.items())
                if foreign == wanted
            ]
            assert subscribers(store, *asked) == expected
        elif what == "rollback":
            store.rollback()
            rows = dict(committed)
        else:
            store.commit()
            committed = dict(rows)
            if what == "flush":
                database.write({name: piece.dirty_rows() for name, piece in store.families().items()}, {})
                store.flushed(database)
                store.evict(everything=rng.random() < 0.5)
    database.close()
