"""``split`` and its branches."""

import pyarrow.compute as pc

from penstock import columnar
from support.flows import Run, source

ROWS = [("a", 1, 10), ("b", 20, 5), (None, 7, 7), ("c", None, 3), ("d", 15, 2)]


def above(limit):
    return lambda key, value: value is not None and value > limit


def test_each_record_goes_down_the_first_branch_whose_predicate_holds(run: Run):
    builder, stream = source(value=int)
    branches = stream.split("by-").branch(above(10), "large").branch(above(5), "medium").default_branch("rest")
    for name, branch in branches.items():
        branch.to(name)
    ran = run(builder, ROWS)
    assert list(branches) == ["by-large", "by-medium", "by-rest"]
    assert ran.output("by-large") == [("b", 20, 5), ("d", 15, 2)]
    assert ran.output("by-medium") == [(None, 7, 7)]
    assert ran.output("by-rest") == [("a", 1, 10), ("c", None, 3)]


def test_without_a_default_branch_the_rest_is_left_out_and_not_counted_as_dropped(run: Run):
    builder, stream = source(value=int)
    stream.split().branch(above(10), "large").no_default_branch()["large"].to("out")
    ran = run(builder, ROWS)
    assert ran.output() == [("b", 20, 5), ("d", 15, 2)]
    assert ran.dropped() == {}


def test_branches_without_names_are_numbered_from_1_and_the_default_branch_is_0(run: Run):
    _, stream = source(value=int)
    branches = stream.split("by-").branch(above(10)).branch(above(5)).default_branch()
    assert list(branches) == ["by-1", "by-2", "by-0"]


def test_a_branch_that_nobody_takes_up_still_takes_its_records(run: Run):
    builder, stream = source(value=int)
    branches = stream.split("by-").branch(above(10), "large").default_branch("rest")
    branches["by-rest"].to("out")
    assert run(builder, ROWS).output() == [("a", 1, 10), (None, 7, 7), ("c", None, 3)]


def test_branches_that_are_merged_again_keep_the_order_of_the_records(run: Run):
    builder, stream = source(value=int)
    branches = stream.split("by-").branch(above(10), "large").default_branch("rest")
    branches["by-rest"].merge(branches["by-large"]).to("out")
    assert run(builder, ROWS).output() == ROWS


def test_a_columnar_predicate_of_a_branch(run: Run):
    @columnar
    def large(key, value):
        return pc.greater(value, 10)

    builder, stream = source(value=int)
    branches = stream.split("by-").branch(large, "large").default_branch("rest")
    branches["by-large"].to("out")
    branches["by-rest"].to("rest")
    ran = run(builder, ROWS)
    assert ran.output() == [("b", 20, 5), ("d", 15, 2)]
    assert ran.output("rest") == [("a", 1, 10), (None, 7, 7), ("c", None, 3)]
