"""``Branched``: what a branch is called, and what is done with it where it is split off (KS-11)."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import Branched
from penstock.errors import ConfigError, TopologyError
from support.flows import of_rows, source

pytestmark = pytest.mark.kip("KS-11")

ROWS = [("a", 5, 0), ("b", 50, 1), ("c", 7, 2)]


def big(key: str, value: int) -> bool:
    return value > 9


def doubled(branch: Any) -> Any:
    return branch.map_values(lambda value: 2 * value, value=int)


@pytest.mark.parametrize("by_keyword", [False, True])
def test_a_branch_is_found_under_its_name(by_keyword: bool):
    builder, stream = source(value=int)
    split, large, small = stream.split(name="by-"), Branched.as_("big"), Branched.with_name("small")
    if by_keyword:
        branches = split.branch(big, branched=large).default_branch(branched=small)
    else:
        branches = split.branch(big, large).default_branch(small)
    assert branches.keys() == {"by-big", "by-small"}
    branches["by-small"].to("out")
    assert of_rows(builder, ROWS).output() == [("a", 5, 0), ("c", 7, 2)]


def test_branches_are_named_and_numbered_as_with_names_alone():
    described = []
    for first, second in ((Branched.as_("big"), Branched()), ("big", None)):
        builder, stream = source(value=int)
        branches = stream.split().branch(big, first).default_branch(second)
        branches["big"].to("out")
        branches["0"].to("rest")
        described.append(builder.build().describe())
    assert described[0] == described[1]
    assert "Processor: KSTREAM-BRANCH-0000000001big (stores: [])" in described[0]
    assert "Sink: KSTREAM-SINK-0000000004 (topic: out)" in described[0]


def test_what_its_function_gives_stands_for_the_branch():
    builder, stream = source(value=int)
    branches = stream.split().branch(big, Branched.with_function(doubled, "big")).no_default_branch()
    branches["big"].to("out")
    assert of_rows(builder, ROWS).output() == [("b", 100, 1)]


def test_a_branch_whose_function_gives_none_is_not_found_and_one_with_a_consumer_neither():
    builder, stream = source(value=int)
    branches = (
        stream.split()
        .branch(big, Branched.with_function(lambda branch: branch.to("large"), "big"))
        .default_branch(Branched.as_("small").with_consumer(lambda branch: doubled(branch).to("doubled")))
    )
    assert branches == {}
    ran = of_rows(builder, ROWS)
    assert ran.output("large") == [("b", 50, 1)]
    assert ran.output("doubled") == [("a", 10, 0), ("c", 14, 2)]


def test_a_name_given_twice_is_refused_and_both_are_named():
    _, stream = source(value=int)
    with pytest.raises(
        TopologyError, match=r"branch at .*: give name= once, not in branched= as well; got 'x' and 'y'"
    ):
        stream.split().branch(big, "x", Branched.as_("y"))
    with pytest.raises(TopologyError, match=r"default_branch at .*: give branched= once; got Branched"):
        stream.split().default_branch(Branched.as_("x"), Branched.as_("y"))


def test_a_chain_is_a_function_or_a_consumer_and_gives_a_stream():
    _, stream = source(value=int)
    with pytest.raises(ConfigError, match="but not both; give one of the two"):
        Branched.with_function(doubled).with_consumer(print)
    with pytest.raises(TopologyError, match=r"Branched at .*test_branched.py:\d+ takes a function of a stream; got 5"):
        Branched.with_function(5)
    with pytest.raises(TopologyError, match=r"what the function of the branch '1' gives at .* of type KStream; got 5"):
        stream.split().branch(big, Branched.with_function(lambda branch: 5))


@pytest.mark.parametrize("how", [Branched.with_consumer, Branched.with_function])
def test_a_function_of_a_branch_that_returns_what_nobody_awaits_is_refused(how: Any):
    async def written(branch: Any) -> None:
        branch.to("out")

    split = source(value=int)[1].split()
    with pytest.raises(TopologyError, match=r"an object to await, of type coroutine|must be of type KStream"):
        split.branch(big, how(lambda branch: written(branch)))
