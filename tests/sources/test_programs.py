"""Whole programs with a source: they end with it, wait for it, and continue it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penstock import SourceError, Streams, StreamsBuilder, consume
from penstock.sources import FileSource, Source, SourceBatch, SourceContext, SourceReader
from support.sourcing import until


def put(folder: Path, name: str, *numbers: int) -> None:
    lake = folder / "lake"
    lake.mkdir(exist_ok=True)
    (lake / f".{name}").write_text("".join(json.dumps({"who": f"w{n % 2}", "n": n}) + "\n" for n in numbers))
    (lake / f".{name}").rename(lake / name)


def start(folder: Path, source: Source | None = None, **options: Any) -> Streams:
    builder = StreamsBuilder()
    rows = builder.source(source or FileSource(folder / "lake", key="who", every="20 ms"), "rows", key=str, value=dict)
    rows.group_by_key().count("counts").to_stream().to("counts")
    given = {"engine": "local", "slots": 1, "log": folder / "log", "state_dir": folder / "state", **options}
    return builder.build().start("shop", **given)


def counts(folder: Path) -> dict[str, int]:
    return {one.key: one.value for one in consume("counts", key=str, value=int, log=folder / "log")}


def test_a_program_that_ends_with_its_input_reads_what_is_there_and_a_later_one_the_rest(tmp_path: Path):
    put(tmp_path, "a.jsonl", 1, 2, 3)
    start(tmp_path, trigger="available-now", auto_offset_reset="latest").await_termination()
    assert counts(tmp_path) == {"w0": 1, "w1": 2}
    put(tmp_path, "b.jsonl", 4)
    start(tmp_path, trigger="available-now").await_termination()
    assert counts(tmp_path) == {"w0": 2, "w1": 2}
    assert len(list(consume("shop-rows-source", log=tmp_path / "log"))) == 4


def test_a_running_program_takes_what_appears_and_tells_how_its_source_is(tmp_path: Path):
    put(tmp_path, "a.jsonl", 1)
    with start(tmp_path, commit_interval="10 ms") as streams:
        streams.process_all_available()
        assert counts(tmp_path) == {"w1": 1}
        put(tmp_path, "b.jsonl", 2)
        streams.process_all_available()
        assert counts(tmp_path) == {"w0": 1, "w1": 1}
        progress = streams.last_progress
        assert progress is not None
        [child] = progress.children
        assert (child.name, child.state, child.source) == ("rows", "running", f"files in {tmp_path / 'lake'}")
    start(tmp_path, trigger="available-now").await_termination()
    assert counts(tmp_path) == {"w0": 1, "w1": 1}


class Failing(Source):
    def open(self, context: SourceContext) -> SourceReader:
        raise SourceError("the door is shut")


def test_a_source_that_fails_for_good_ends_the_program_with_an_error_that_names_it(tmp_path: Path):
    streams = start(tmp_path, Failing())
    with (
        streams,
        pytest.raises(SourceError, match=r"application 'shop' stopped because its source 'rows' \(Failing, source at"),
    ):
        streams.await_termination(timeout=60)


class Endless(Source):
    """Gives numbers for as long as somebody reads."""

    poll_ms = 0

    def open(self, context: SourceContext) -> SourceReader:
        class Reader(SourceReader):
            def read(self, offset: Any, most: int) -> SourceBatch:
                begin = offset or 0
                return SourceBatch([("a", {"n": n}) for n in range(begin, begin + 50)], begin + 50)

        return Reader()


def test_a_program_with_a_source_that_never_rests_stops_at_once(tmp_path: Path):
    streams = start(tmp_path, Endless())
    until(lambda: counts(tmp_path) if (tmp_path / "log" / "counts").exists() else None)
    streams.stop()
    before = len(list(consume("shop-rows-source", log=tmp_path / "log")))
    assert before % 50 == 0
    assert len(list(consume("shop-rows-source", log=tmp_path / "log"))) == before
