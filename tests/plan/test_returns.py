"""Aggregators that forget to return are refused when the topology is built."""

from __future__ import annotations

import pytest

from penstock import StreamsBuilder
from penstock.errors import TopologyError


def forgets(key, value, total):
    total.append(value)


def returns_sometimes(key, value, total):
    total["n"] = total.get("n", 0) + 1
    if total["n"] < 3:
        return total
    return None


def returns_always(key, value, total):
    if value is None:
        return total
    return [*total, value]


def grouped():
    return StreamsBuilder().stream("in").group_by_key()


def test_an_aggregator_without_return_is_refused_with_its_line():
    line = forgets.__code__.co_firstlineno
    with pytest.raises(TopologyError) as failure:
        grouped().aggregate(list, forgets)
    assert f"the aggregator forgets at {__file__}:{line} always returns None" in str(failure.value)


@pytest.mark.parametrize(
    ("initializer", "adder"),
    [
        (list, lambda key, value, total: total.append(value)),
        (list, lambda key, value, total: total.append(value.get("x"))),
        (dict, lambda key, value, total: total.update(value)),
        (list, lambda key, value, total: None),
        (list, forgets),
    ],
)
def test_an_aggregator_that_only_changes_its_aggregate_is_refused(initializer, adder):
    with pytest.raises(TopologyError, match="always returns None, which deletes the aggregate; it must"):
        grouped().aggregate(initializer, adder)


def test_reducers_mergers_and_cogroups_are_checked_as_well():
    for build in (
        lambda: grouped().reduce(lambda one, other: None),
        lambda: grouped().cogroup(forgets),
    ):
        with pytest.raises(TopologyError, match="always returns None"):
            build()


@pytest.mark.parametrize(
    "adder",
    [
        returns_sometimes,
        returns_always,
        lambda key, value, total: [*total, value],
        lambda key, value, total: total.append(value) or total,
        lambda key, value, total: max(total, value),
        lambda key, value, total: value if value else None,
    ],
)
def test_an_aggregator_that_may_return_something_is_taken(adder):
    grouped().aggregate(list, adder)


def prints(key, value):
    print(key, value)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda s: s.filter(prints),
            "filter at .* the function prints at .* always returns None, so no record passes",
        ),
        (
            lambda s: s.filter_not(prints),
            "filter_not at .* always returns None, so every record passes",
        ),
        (
            lambda s: s.to_table().filter(prints),
            "filter at .* always returns None, so no record passes",
        ),
        (
            lambda s: s.split().branch(prints),
            "branch at .* always returns None, so it gets no record",
        ),
    ],
    ids=["filter", "filter_not", "a filter of a table", "a branch"],
)
def test_a_predicate_without_return_is_refused_with_the_consequence(build, message):
    with pytest.raises(TopologyError, match=f"{message}; it must return True or False"):
        build(StreamsBuilder().stream("in"))
