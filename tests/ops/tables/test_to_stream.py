"""``to_stream`` on tables."""

from penstock import StreamsBuilder, TimeWindows
from support.flows import Run, windowed


def test_to_stream_gives_the_changes_of_a_table_and_deletions_as_null_values(run: Run):
    builder = StreamsBuilder()
    builder.table("in", value=int).to_stream().to("out")
    rows = [("a", 1, 10), ("a", None, 5), ("b", 2, 7)]
    assert run(builder, rows).output() == rows


def test_to_stream_may_give_new_keys(run: Run):
    builder = StreamsBuilder()
    builder.table("in", value=int).to_stream(lambda key, value: f"{key}{value}").to("out")
    assert run(builder, [("a", 1, 10), ("a", None, 5)]).output() == [
        ("a1", 1, 10),
        ("aNone", None, 5),
    ]


def test_to_stream_of_a_windowed_table_may_take_the_key_out_of_the_window(run: Run):
    builder = StreamsBuilder()
    windows = TimeWindows.of_size_with_no_grace(10)
    counts = builder.stream("in", value=int).group_by_key().windowed_by(windows).count()
    counts.to_stream().to("out")
    counts.to_stream(lambda window, count: f"{window.key}@{window.start}-{window.end}").to("text")
    ran = run(builder, [("a", 1, 3), ("a", 2, 12)])
    assert ran.output() == [(windowed("a", 0, 10), 1, 3), (windowed("a", 10, 20), 1, 12)]
    assert ran.output("text") == [("a@0-10", 1, 3), ("a@10-20", 1, 12)]
