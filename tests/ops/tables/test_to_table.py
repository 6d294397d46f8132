"""``to_table`` on streams."""

from support.flows import Run, source

ROWS = [
    ("a", 1, 10),
    ("b", 2, 20),
    ("a", 3, 5),
    (None, 9, 30),
    ("b", None, 25),
    ("c", None, 1),
]


def test_to_table_keeps_the_newest_value_of_each_key_and_null_deletes(run: Run):
    builder, stream = source(value=int)
    stream.to_table("newest").to_stream().to("out")
    ran = run(builder, ROWS)
    assert ran.output() == [
        ("a", 1, 10),
        ("b", 2, 20),
        ("a", 3, 5),
        ("b", None, 25),
        ("c", None, 1),
    ]
    assert ran.store("newest") == [("a", 3, 5)]
    assert ran.dropped() == {("KSTREAM-TOTABLE-0000000001", "null-key"): 1}


def test_behind_a_new_key_records_without_one_vanish_in_the_repartition(run: Run):
    builder, stream = source(value=int)
    stream.select_key(lambda key, value: None if value == 9 else key).to_table("newest").to_stream().to("out")
    ran = run(builder, ROWS)
    assert ran.output() == [
        ("a", 1, 10),
        ("b", 2, 20),
        ("a", 3, 5),
        ("b", None, 25),
        ("c", None, 1),
    ]
    assert ran.store("newest") == [("a", 3, 5)]
    assert ran.dropped() == {}
