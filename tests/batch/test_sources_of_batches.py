"""A batch that is a commit of an application reads its sources to their ends first."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penstock import ConfigError, StreamsBuilder, Topology, consume
from penstock.sources import FileSource

pytestmark = pytest.mark.slow


def counting(lake: Path) -> Topology:
    builder = StreamsBuilder()
    orders = builder.source(FileSource(lake, key="who"), "orders", key=str, value=dict, partitions=2)
    orders.group_by_key().count("counts").to_stream().to("counts")
    return builder.build()


def put(lake: Path, name: str, *people: str) -> None:
    lake.mkdir(exist_ok=True)
    (lake / name).write_text("".join(json.dumps({"who": who}) + "\n" for who in people))


def counts(folder: Path) -> dict[str, int]:
    return {one.key: one.value for one in consume("counts", key=str, value=int, log=folder / "log")}


def test_a_batch_takes_the_files_that_are_there_and_the_next_one_the_others(spark: Any, tmp_path: Path):
    places = {"log": tmp_path / "log", "state_dir": tmp_path / "state"}
    lake = tmp_path / "lake"
    put(lake, "a.jsonl", "ann", "bob", "ann")
    counting(lake).run_batch(spark, application_id="shop", **places)
    assert counts(tmp_path) == {"ann": 2, "bob": 1}
    put(lake, "b.jsonl", "bob")
    counting(lake).run_batch(spark, application_id="shop", **places)
    assert counts(tmp_path) == {"ann": 2, "bob": 2}


def test_a_source_without_an_end_is_refused(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(FileSource, "has_end", False)
    with pytest.raises(ConfigError, match=r"source 'orders' .* has no end"):
        counting(tmp_path).run_batch(spark, application_id="shop", log=tmp_path / "log", state_dir=tmp_path / "state")


def test_without_an_application_a_dataframe_stands_for_a_source(spark: Any, tmp_path: Path):
    frame = spark.createDataFrame([("ann", 1), ("ann", 2)], "who string, n int")
    result = counting(tmp_path).run_batch(spark, {"orders": frame}, key="who", stores=["counts"])
    assert [(row["key"], row["value"]) for row in result.store("counts").collect()] == [("ann", 2)]
    with pytest.raises(ConfigError, match="topic 'orders', for which there is no DataFrame"):
        counting(tmp_path).run_batch(spark)
