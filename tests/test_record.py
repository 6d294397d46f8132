"""The record that processors and tests meet: an object of four fields that is also the tuple of them."""

from __future__ import annotations

import copy
import pickle

import pytest

from penstock import Record

RECORD = Record("JFK", 5, 1000, (("h", b"x"),))
FIELDS = ("JFK", 5, 1000, (("h", b"x"),))


def test_it_is_unpacked_and_indexed_like_the_tuple_of_its_fields():
    key, value, timestamp, headers = RECORD
    assert (key, value, timestamp, headers) == FIELDS == tuple(RECORD)
    assert (RECORD[0], RECORD[-1], RECORD[:2], len(RECORD)) == ("JFK", FIELDS[3], ("JFK", 5), 4)


def test_it_equals_the_tuple_of_its_fields_and_is_found_where_that_is():
    assert RECORD == FIELDS
    assert RECORD in {FIELDS}
    assert RECORD not in [Record("JFK", 5, 1000), FIELDS[:3], list(FIELDS)]


def test_its_fields_have_names_as_those_of_a_named_tuple():
    assert RECORD._fields == ("key", "value", "timestamp", "headers")
    assert RECORD._asdict() == dict(zip(RECORD._fields, FIELDS, strict=True))


def test_records_are_sorted_by_their_fields():
    later = RECORD.with_timestamp(1001)
    assert sorted([later, RECORD]) == [RECORD, later]


def test_it_cannot_be_changed_but_copied_with_another_field():
    with pytest.raises(AttributeError):
        RECORD.value = 6  # type: ignore[misc]
    assert tuple(RECORD.with_key("LAX").with_value(6).with_timestamp(7).with_headers([])) == ("LAX", 6, 7, ())  # type: ignore[arg-type]
    assert RECORD._replace(value=6, timestamp=7) == ("JFK", 6, 7, FIELDS[3])
    assert copy.copy(RECORD) == RECORD == pickle.loads(pickle.dumps(RECORD))
