"""``join`` and ``left_join`` of tables by a foreign key."""

import pytest

from penstock import Materialized, StreamsBuilder, Suppressed, TimeWindows
from penstock.errors import TopologyError
from penstock.testing import TopologyTestDriver
from support.flows import Run


def joined(method, left=None, right=None, foreign_key=lambda value: value.split(":")[0], **options):
    """Orders such as ``ann:tea`` of a customer, joined with the customers; into ``out``."""
    builder = StreamsBuilder()
    orders = builder.table("orders", value=str, materialized=left)
    customers = builder.table("customers", value=str, materialized=right)
    table = getattr(orders, method)(
        customers, lambda order, customer: f"{order} {customer}", value=str, foreign_key=foreign_key, **options
    )
    table.to_stream().to("out")
    return builder


ROWS = [
    ("orders", "o2", "ann:tea", 1),
    ("customers", "ann", "Oslo", 2),
    ("orders", "o1", "ann:milk", 3),
    ("customers", "ann", "Rome", 4),  # for both, in the order of their keys
    ("orders", "o1", "bob:milk", 5),  # nobody is called bob
    ("customers", "bob", "Bern", 6),
    ("orders", "o1", "ann:milk", 7),
    ("customers", "bob", "Bonn", 8),  # nobody's order any more
    ("orders", "o2", None, 9),
    ("customers", "ann", None, 10),
]


def test_a_join_follows_changes_of_both_sides_and_of_the_foreign_key(run: Run):
    ran = run(joined("join", store="kept"), ROWS)
    assert ran.output() == [
        ("o2", "ann:tea Oslo", 2),
        ("o1", "ann:milk Oslo", 3),
        ("o1", "ann:milk Rome", 4),
        ("o2", "ann:tea Rome", 4),
        ("o1", None, 5),
        ("o1", "bob:milk Bern", 6),
        ("o1", "ann:milk Rome", 7),
        ("o2", None, 9),
        ("o1", None, 10),
    ]
    assert ran.store("kept") == []
    assert ran.dropped() == {}


def test_a_left_join_keeps_rows_that_find_nothing(run: Run):
    ran = run(joined("left_join", store="kept"), ROWS)
    assert ran.output() == [
        ("o2", "ann:tea None", 1),
        ("o2", "ann:tea Oslo", 2),
        ("o1", "ann:milk Oslo", 3),
        ("o1", "ann:milk Rome", 4),
        ("o2", "ann:tea Rome", 4),
        ("o1", "bob:milk None", 5),
        ("o1", "bob:milk Bern", 6),
        ("o1", "ann:milk Rome", 7),
        ("o2", None, 9),
        ("o1", "ann:milk None", 10),
    ]
    assert ran.store("kept") == [("o1", "ann:milk None", 10)]


def test_a_foreign_key_of_none_withdraws_the_result_and_is_dropped_but_for_left_joins(run: Run):
    def customer(value):
        return None if value == "nobody" else value

    rows = [("customers", "ann", "Oslo", 1), ("orders", "o", "ann", 2), ("orders", "o", "nobody", 3)]
    inner, left = (run(joined(method, foreign_key=customer), rows) for method in ("join", "left_join"))
    assert inner.output() == [("o", "ann Oslo", 2), ("o", None, 3)]
    assert left.output() == [("o", "ann Oslo", 2), ("o", "nobody None", 3)]
    assert sum(inner.dropped().values()) == 1
    assert left.dropped() == {}


SUBSCRIPTIONS = "KTABLE-FK-JOIN-SUBSCRIPTION-STATE-STORE-0000000010"


@pytest.mark.parametrize("method", ["join", "left_join"])
def test_a_subscription_is_kept_as_long_as_its_row_names_the_key_whether_there_is_one_or_not(run: Run, method):
    def subscriptions(rows):
        ran = run(joined(method, foreign_key=lambda order: order.partition(":")[0] or None, store="kept"), rows)
        return [key[4:].decode() for key, _, _ in ran.store(SUBSCRIPTIONS)], [key for key, _, _ in ran.store("kept")]

    everyone = method == "left_join"
    rows = [
        ("customers", "ann", "Oslo", 1),
        ("orders", "o1", "ann:tea", 2),
        ("orders", "o2", "bob:milk", 3),
        ("orders", "o3", ":nobody", 4),
    ]
    assert subscriptions(rows) == (["anno1", "bobo2"], ["o1", "o2", "o3"] if everyone else ["o1"])
    rows += [("customers", "ann", None, 5)]  # she may come back
    assert subscriptions(rows) == (["anno1", "bobo2"], ["o1", "o2", "o3"] if everyone else [])
    rows += [("orders", "o1", "bob:tea", 6)]
    assert subscriptions(rows) == (["bobo1", "bobo2"], ["o1", "o2", "o3"] if everyone else [])
    rows += [("orders", order, None, 7) for order in ("o1", "o2", "o3", "o4")]
    assert subscriptions(rows) == ([], [])


def test_the_foreign_key_may_come_from_the_key_too(run: Run):
    rows = [("customers", "o", "Oslo", 1), ("orders", "o1", "tea", 2)]
    builder = joined("join", foreign_key=lambda key, value: key[0])
    assert run(builder, rows).output() == [("o1", "tea Oslo", 2)]


@pytest.mark.parametrize(("method", "last"), [("join", None), ("left_join", "ann:tea None")])
def test_a_value_of_no_bytes_counts_as_none_in_the_right_table(run: Run, method, last):
    rows = [("customers", "ann", "Oslo", 1), ("orders", "o1", "ann:tea", 2), ("customers", "ann", "", 3)]
    ran = run(joined(method), [*rows, ("orders", "o2", "ann:milk", 4)])
    missing = None if last is None else "ann:milk None"
    assert ran.output() == [("o1", "ann:tea Oslo", 2), ("o1", last, 3), ("o2", missing, 4)]


@pytest.mark.kip("914-05")
@pytest.mark.parametrize("method", ["join", "left_join"])
def test_out_of_order_records_of_versioned_tables_emit_nothing(run: Run, method):
    left, right = Materialized.as_versioned("left", 1000), Materialized.as_versioned("right", 1000)
    rows = [
        ("customers", "ann", "Oslo", 5),
        ("customers", "ann", "Rome", 4),  # out of order
        ("orders", "o", "ann:tea", 6),
        ("orders", "o", "bob:tea", 3),  # out of order
        ("customers", "ann", "Bern", 7),
    ]
    ran = run(joined(method, left, right), rows)
    assert ran.output() == [("o", "ann:tea Oslo", 6), ("o", "ann:tea Bern", 7)]
    assert sum(ran.dropped().values()) == 2


@pytest.mark.kip("914-05")
@pytest.mark.parametrize("method", ["join", "left_join"])
def test_a_table_joined_with_itself_drops_responses_to_the_value_that_the_same_record_replaced(run: Run, method):
    builder = StreamsBuilder()
    people = builder.table("people", value=str)
    with_boss = getattr(people, method)(
        people, lambda person, boss: f"{person} {boss}", value=str, foreign_key=lambda person: person.split(":")[0]
    )
    with_boss.to_stream().to("out")
    rows = [
        ("people", "ann", "ann:Oslo", 1),
        ("people", "bob", "ann:Bern", 2),
        ("people", "ann", "ann:Rome", 3),  # her old subscription is answered too late
        ("people", "ann", "ann:Rome", 4),  # nothing is replaced, both answers come
        ("people", "ann", "bob:Rome", 5),  # again too late
        ("people", "bob", "ann:Bonn", 6),
        ("people", "ann", "ann:Kiev", 7),
        ("people", "ann", None, 8),  # again too late
    ]
    ran = run(builder, rows)
    assert ran.output() == [
        ("ann", "ann:Oslo ann:Oslo", 1),
        ("bob", "ann:Bern ann:Oslo", 2),
        ("bob", "ann:Bern ann:Rome", 3),
        ("ann", "ann:Rome ann:Rome", 3),
        ("ann", "ann:Rome ann:Rome", 4),
        ("bob", "ann:Bern ann:Rome", 4),
        ("ann", "ann:Rome ann:Rome", 4),
        ("bob", "ann:Bern bob:Rome", 5),
        ("ann", "bob:Rome ann:Bern", 5),
        ("ann", "bob:Rome ann:Bonn", 6),
        ("bob", "ann:Bonn bob:Rome", 6),
        ("bob", "ann:Bonn ann:Kiev", 7),
        ("ann", "ann:Kiev ann:Kiev", 7),
        ("bob", "ann:Bonn None" if method == "left_join" else None, 8),
        ("ann", None, 8),
    ]
    assert sum(ran.dropped().values()) == 3


def test_a_late_response_waits_its_turn_before_it_is_dropped():
    builder = StreamsBuilder()
    people = builder.table("people", value=str)
    with_boss = people.left_join(people, lambda person, boss: f"{person} {boss}", foreign_key=lambda person: person[0])
    with_boss.group_by(lambda key, value: (key, value), key=str).count().to_stream().to("counts")
    with_boss.to_stream().to("joined")
    with TopologyTestDriver(builder.build()) as driver:
        for key, value, time in [("a", "a1", 1), ("b", "a2", 2), ("a", None, 3)]:
            driver.pipe_input("people", key, value, time)
        last = [(topic, *record[:3]) for topic, record in driver.read_all_output() if record.timestamp == 3]
        assert last == [
            ("joined", "b", "a2 None", 3),
            ("joined", "a", None, 3),
            ("counts", "b", 1, 3),
            ("counts", "a", 0, 3),
        ]
        assert driver.dropped_records_total() == 1


@pytest.mark.kip("914-05")
@pytest.mark.parametrize("method", ["join", "left_join"])
def test_of_several_values_that_one_record_gives_a_row_only_the_last_finds_its_answer(run: Run, method):
    builder = StreamsBuilder()
    orders = builder.stream("orders", value=str).flat_map_values(lambda line: line.split(","), value=str).to_table()
    customers = builder.table("customers", value=str)
    named = getattr(orders, method)(
        customers, lambda order, city: f"{order} {city}", value=str, foreign_key=lambda order: order.split(":")[0]
    )
    named.to_stream().to("out")
    rows = [
        ("customers", "ann", "Oslo", 1),
        ("orders", "o", "ann:tea,ann:milk", 2),
        ("orders", "o", "bob:tea,ann:milk,ann:tea", 3),
        ("orders", "o", "ann:rum,bob:rum,ann:rum", 4),  # the first value is the last again
        ("customers", "ann", "Rome", 5),
    ]
    ran = run(builder, rows)
    assert ran.output() == [
        ("o", "ann:milk Oslo", 2),
        ("o", "ann:tea Oslo", 3),
        ("o", "ann:rum Oslo", 4),
        ("o", "ann:rum Oslo", 4),
        ("o", "ann:rum Rome", 5),
    ]
    assert sum(ran.dropped().values()) == 4


def pairs(builder, **options):
    """A table joined with itself by its own key: a deletion finds nothing on either side, and nothing is sent."""
    people = builder.table("people", value=str)
    return people.join(people, lambda one, same: f"{one}|{same}", value=str, **options)


@pytest.mark.kip("914-05")
@pytest.mark.parametrize("method", ["join", "left_join"])
def test_a_row_that_an_inner_join_deletes_in_silence_is_still_subscribed_but_no_answer_reaches_it(run: Run, method):
    builder = StreamsBuilder()
    bosses = builder.table("bosses", value=str)
    with_boss = getattr(pairs(builder), method)(
        bosses, lambda pair, boss: f"{pair} {boss}", value=str, foreign_key=lambda pair: pair[:1]
    )
    with_boss.to_stream().to("out")
    rows = [
        ("bosses", "a", "Oslo", 1),
        ("people", "k", "ann", 2),
        ("people", "k", None, 3),  # nobody is told
        ("bosses", "a", "Rome", 4),  # the answer comes too late
        ("people", "k", "ann", 5),  # the same again
        ("bosses", "a", "Bern", 6),
        ("people", "k", None, 7),
        ("people", "k", "bob", 8),  # nothing takes the subscription to a away
        ("bosses", "a", "Kiev", 9),  # too late
        ("bosses", "b", "Bonn", 10),
    ]
    ran = run(builder, rows)
    nobody = ("k", "bob|bob None" if method == "left_join" else None, 8)
    assert ran.output() == [
        ("k", "ann|ann Oslo", 2),
        ("k", "ann|ann Oslo", 2),
        ("k", "ann|ann Rome", 5),
        ("k", "ann|ann Rome", 5),
        ("k", "ann|ann Bern", 6),
        *[nobody, nobody][: 2 if method == "left_join" else 0],
        ("k", "bob|bob Bonn", 10),
    ]
    assert sum(ran.dropped().values()) == 2


@pytest.mark.kip("914-05")
def test_a_row_that_comes_to_be_the_same_again_hears_the_answer_that_its_own_record_brings_about(run: Run):
    builder = StreamsBuilder()
    names = builder.stream("people", value=str)
    left, right = (
        names.to_table().filter(lambda _, name: "a" in name),
        names.to_table().filter(lambda _, name: "b" in name),
    )
    pairs = left.join(left, lambda one, same: f"{one[:1]}|{same[:1]}", value=str)
    joined = pairs.left_join(right, lambda pair, own: f"{pair} {own}", value=str, foreign_key=lambda pair: pair[:1])
    joined.to_stream().to("out")
    rows = [
        ("people", "a", "ab", 1),
        ("people", "a", "b", 2),  # not in the left table any more, and nobody is told
        ("people", "a", "a", 3),  # back, and the right row is gone: the answer to the old subscription is good again
    ]
    ran = run(builder, rows)
    assert ran.output() == [
        ("a", "a|a ab", 1),
        ("a", "a|a ab", 1),
        ("a", "a|a None", 3),
        ("a", "a|a None", 3),
        ("a", "a|a None", 3),
    ]
    assert sum(ran.dropped().values()) == 1


VISITS = [
    ("cities", "Oslo", "one", 1),
    ("visits", "ann", "Oslo", 2),
    ("cities", "Oslo", "two", 3),
    ("visits", "bob", "Oslo", 15),
    ("cities", "Oslo", "three", 16),
    ("visits", "bob", "Oslo", 25),
    ("cities", "Oslo", "four", 26),
]


def with_cities(builder, windows):
    cities = builder.table("cities", value=str)
    joined = windows.join(cities, lambda city, mayor: f"{city} {mayor}", value=str, foreign_key=lambda city: city)
    joined.to_stream().to("out")


def last_visits(builder, **options):
    windows = builder.stream("visits", value=str).group_by_key().windowed_by(TimeWindows.of_size_with_no_grace("10ms"))
    return windows.reduce(lambda _, city: city, **options)


def starts(ran):
    return [(key.key, key.start, *row) for key, *row in ran.output()]


@pytest.mark.kip("914-05")
def test_windows_that_have_expired_hear_no_answers(run: Run):
    builder = StreamsBuilder()
    with_cities(builder, last_visits(builder))
    ran = run(builder, VISITS)
    assert starts(ran) == [
        ("ann", 0, "Oslo one", 2),
        ("ann", 0, "Oslo two", 3),
        ("bob", 10, "Oslo two", 15),  # with this window those before expire
        ("bob", 10, "Oslo three", 16),
        ("bob", 20, "Oslo three", 25),
        ("bob", 20, "Oslo four", 26),
    ]
    assert sum(ran.dropped().values()) == 3


@pytest.mark.kip("914-05")
def test_final_results_hear_answers_for_as_long_as_their_store_keeps_the_windows(run: Run):
    builder = StreamsBuilder()
    visits = last_visits(builder, materialized=Materialized.as_("last").with_retention("20ms"))
    with_cities(builder, visits.suppress(Suppressed.until_window_closes()))
    ran = run(builder, VISITS)
    assert starts(ran) == [
        ("ann", 0, "Oslo two", 3),
        ("ann", 0, "Oslo three", 16),
        ("bob", 10, "Oslo three", 16),
        ("bob", 10, "Oslo four", 26),
    ]
    assert sum(ran.dropped().values()) == 1


def test_there_is_no_outer_join_by_a_foreign_key():
    with pytest.raises(TypeError, match="foreign_key"):
        joined("outer_join")


@pytest.mark.parametrize("more", [(), (lambda left, right: [left, right],)])
def test_kafka_streams_order_of_arguments_is_answered_with_ours(more):
    builder = StreamsBuilder()
    orders, customers = builder.table("orders", value=str), builder.table("customers", value=str)
    with pytest.raises(TopologyError, match=r"a join by a foreign key is join\(other, joiner, foreign_key=...\)"):
        orders.join(customers, lambda order: order, *more)


def test_the_foreign_key_has_the_type_of_the_other_tables_keys():
    def number(value) -> int:
        return len(value)

    with pytest.raises(TopologyError, match="keys of type int, the right side of type str"):
        joined("join", foreign_key=number)


def test_a_right_row_that_a_change_of_the_left_row_makes_by_a_topic_is_not_joined_with_the_row_before():
    builder = StreamsBuilder()
    orders = builder.table("orders", value=str)
    totals = orders.group_by(lambda key, value: (value[0], value), value=str).count()
    joined = orders.join(totals, lambda order, n: f"{order} {n}", value=str, foreign_key=lambda value: value[0])
    joined.to_stream().to("out")
    with TopologyTestDriver(builder.build(), statestore_cache_max_bytes=0) as driver:
        driver.pipe_input("orders", "o1", "ann", 1)
        driver.pipe_input("orders", "o1", "bob", 2)  # nobody is ann any more, and o1 was it
        assert [record[:3] for record in driver.read_output("out")][-1] == ("o1", "bob 1", 2)
        assert driver.dropped_records_total() == 1


def test_a_suppressed_left_row_is_not_joined_when_the_row_was_replaced_while_it_waited(run: Run):
    builder = StreamsBuilder()
    orders = builder.table("orders", value=str).suppress(Suppressed.until_time_limit(5))
    customers = builder.table("customers", value=str)
    by_name = lambda value: value.split(":")[0]  # noqa: E731
    joined = orders.join(customers, lambda o, c: f"{o} {c}", value=str, foreign_key=by_name)
    joined.to_stream().to("out")
    rows = [
        ("orders", "o1", "ann:tea", 0),
        ("orders", "o2", "x", 10),  # the first goes on
        ("orders", "o1", "bob:tea", 11),
        ("orders", "o1", "bob:milk", 12),
        ("orders", "o2", "x", 30),  # as a change from bob's tea, which was never sent on
        ("customers", "ann", "Oslo", 31),
    ]
    ran = run(builder, rows)
    assert ran.output() == []
    assert sum(ran.dropped().values()) == 1


def test_a_response_to_a_row_that_the_same_record_has_changed_by_way_of_a_topic_of_ones_own_comes_too_late():
    builder = StreamsBuilder()
    pairs = builder.stream("in", value=str).flat_map(
        lambda key, value: [(key, value), (value[0], value + "2")], key=str, value=str
    )
    pairs.group_by_key().reduce(lambda old, new: new).to_stream().to("lefts")
    left, right = builder.table("lefts", value=str), pairs.to_table()
    left.join(right, lambda one, other: f"{one}+{other}", value=str, foreign_key=lambda value: "a").to_stream().to(
        "out"
    )
    driver = TopologyTestDriver(builder.build(), statestore_cache_max_bytes=0)
    driver.pipe_input("in", "b", "ax", 0)
    driver.pipe_input("in", "a", "x", 3)
    assert driver.dropped_records_total() == 1
    assert [record[:3] for record in driver.read_output("out")] == [
        ("b", "ax+ax2", 0),
        ("a", "ax2+ax2", 0),
        ("b", "ax+x", 3),
        ("a", "x+x", 3),  # and not x+ax2, of the value that the row had before
        ("x", "x2+x", 3),
    ]


def test_it_comes_too_late_as_well_where_the_topic_is_written_behind_the_join():
    builder = StreamsBuilder()
    left, right = builder.table("lefts", value=str), builder.table("rights", value=str)
    pairs = left.left_join(right, lambda one, other: f"{one}+{other}", value=str, foreign_key=lambda value: "x")
    pairs.to_stream().to("out")
    left.to_stream().filter(lambda key, value: len(value) < 2).map_values(lambda value: value + "!", value=str).to(
        "lefts"
    )
    driver = TopologyTestDriver(builder.build(), statestore_cache_max_bytes=0)
    driver.pipe_input("lefts", "l", "a", 0)
    assert [record[:3] for record in driver.read_output("out")] == [("l", "a!+None", 0)]
