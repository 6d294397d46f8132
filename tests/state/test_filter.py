"""The filter of hashes: what it calls new is new."""

import numpy as np

from penstock.state.columns.hash_filter import HashFilter

NONE = np.zeros(0, np.uint64)


def random_hashes(count, seed):
    return np.random.default_rng(seed).integers(0, 2**63, count).astype(np.uint64)


def test_a_filter_without_hashes_calls_everything_new():
    assert not HashFilter(NONE).may_have(random_hashes(1000, seed=1)).any()


def test_a_hash_that_was_added_is_never_called_new():
    known = HashFilter(random_hashes(100, seed=1))
    known.add(random_hashes(5000, seed=2))
    assert known.may_have(random_hashes(100, seed=1)).all()
    assert known.may_have(random_hashes(5000, seed=2)).all()


def test_most_new_hashes_are_called_new_until_the_filter_is_full():
    known = HashFilter(random_hashes(1000, seed=1))
    while not known.is_full:
        known.add(random_hashes(50, seed=known._size))
    assert known.may_have(random_hashes(100_000, seed=0)).mean() < 0.2


def test_a_full_filter_made_anew_has_room():
    known = HashFilter(NONE)
    known.add(random_hashes(1000, seed=1))
    assert known.is_full
    assert not HashFilter(random_hashes(1000, seed=1)).is_full
