"""``count`` on grouped streams and grouped tables."""

from penstock import Materialized, StreamsBuilder
from penstock.serdes import Serde
from support.flows import Run, source


def test_count_of_a_grouped_stream_counts_records_and_keeps_the_largest_time(run: Run):
    builder, stream = source(value=str)
    stream.group_by_key().count("counts").to_stream().to("out")
    rows = [
        ("a", "x", 10),
        ("b", "y", 3),
        ("a", "z", 5),  # late: counted, and the time stays
        (None, "x", 99),  # dropped
        ("a", None, 99),  # dropped
        ("a", "x", 11),
    ]
    ran = run(builder, rows)
    assert ran.output() == [
        ("a", 1, 10),
        ("b", 1, 3),
        ("a", 2, 10),
        ("a", 3, 11),
    ]
    assert ran.store("counts") == [("a", 3, 11), ("b", 1, 3)]
    assert ran.dropped() == {
        ("KSTREAM-AGGREGATE-0000000001", "null-key"): 1,
        ("KSTREAM-AGGREGATE-0000000001", "null-value"): 1,
    }


def test_a_record_without_key_and_value_is_dropped_once(run: Run):
    builder, stream = source(value=str)
    stream.group_by_key().count("counts")
    ran = run(builder, [(None, None, 1)])
    assert ran.dropped() == {("KSTREAM-AGGREGATE-0000000001", "null-key"): 1}


class Sealed(Serde):
    """Bytes that nobody can look into."""

    name = "sealed"
    gives_none = False

    def encode(self, value):
        return value.encode()

    def decode(self, data):
        raise AssertionError("nobody needs to look into this")


def test_count_never_decodes_the_values(run: Run):
    builder, stream = source(value=Sealed())
    stream.group_by_key().count().to_stream().to("out")
    assert run(builder, [("a", "x", 1), ("a", "y", 2)]).output() == [("a", 1, 1), ("a", 2, 2)]


def test_counts_can_be_kept_in_another_type_and_in_memory(run: Run):
    builder, stream = source(value=str)
    kept = Materialized.as_("counts").with_value(dict | int).in_memory()
    stream.group_by_key().count(materialized=kept).to_stream().to("out")
    ran = run(builder, [("a", "x", 1), ("a", "y", 2), ("b", "z", 3)])
    assert ran.output() == [("a", 1, 1), ("a", 2, 2), ("b", 1, 3)]
    assert ran.store("counts") == [("a", 2, 2), ("b", 1, 3)]


def counts_by_city():
    builder = StreamsBuilder()
    cities = builder.table("in", value=str)
    cities.group_by(lambda person, city: (city, person), value=str).count("counts").to_stream().to("out")
    return builder


def test_count_of_a_grouped_table_follows_its_rows_from_group_to_group(run: Run):
    rows = [
        ("ann", "Oslo", 10),
        ("bob", "Oslo", 5),
        ("ann", "Rome", 7),  # leaves Oslo, then joins Rome
        ("bob", "Oslo", 20),  # stays: one update
        ("bob", None, 15),  # leaves
        ("cat", None, 30),  # was never there
    ]
    ran = run(counts_by_city(), rows)
    assert ran.output() == [
        ("Oslo", 1, 10),
        ("Oslo", 2, 10),
        ("Oslo", 1, 10),
        ("Rome", 1, 7),
        ("Oslo", 1, 20),
        ("Oslo", 0, 20),
    ]
    assert ran.store("counts") == [("Oslo", 0, 20), ("Rome", 1, 7)]
    assert ran.dropped() == {}


def test_a_count_of_counts_takes_the_count_before_out_of_its_group_also_the_zero_of_a_new_key(run: Run):
    builder, stream = source(value=str)
    counts = stream.group_by_key().count("counts")
    counts.group_by(lambda key, count: (count, key), key=int, value=str).count("keys").to_stream().to("out")
    ran = run(builder, [("a", "x", 1), ("b", "x", 2), ("a", "x", 3), ("a", "x", 4)])
    assert ran.output() == [
        (0, None, 1),  # there is no group 0 to take anything out of
        (1, 1, 1),
        (0, None, 2),
        (1, 2, 2),
        (1, 1, 3),
        (2, 1, 3),
        (2, 0, 4),
        (3, 1, 4),
    ]
    assert ran.store("keys") == [(1, 1, 3), (2, 0, 4), (3, 1, 4)]
