"""Names of the greatest length that a topology takes fit into the names of all files."""

from __future__ import annotations

from pathlib import Path

from penstock import StreamsBuilder
from support.world import World


def test_a_program_whose_names_are_as_long_as_they_may_be_runs(tmp_path: Path):
    builder = StreamsBuilder()
    values = builder.stream("in", value=str).select_key(lambda key, value: value)
    values.group_by_key().count("n" * 188).to_stream().to("o" * 249)
    world = World(tmp_path, builder.build(), snapshot_commits=2)
    for _ in range(4):
        world.run("a", "b")
    assert world.output("o" * 249)[-1] == ("x", 8)
