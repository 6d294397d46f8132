"""Spark's own pages say which program a job is: its id, its sub-topologies and slots, and where its page is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock import StreamsBuilder, produce
from penstock.engine.running.start import start

pytestmark = pytest.mark.slow


def test_the_job_of_the_slots_is_described_and_stands_in_the_pool_of_its_caller(spark: Any, tmp_path: Path):
    produce([("a", "x")], "words", key=str, value=str, partitions=2, log=tmp_path)
    builder = StreamsBuilder()
    words = builder.stream("words", key=str, value=str).group_by(lambda _, word: word)
    words.count("counts").to_stream().to("totals")
    context = spark.sparkContext
    context.setLocalProperty("spark.scheduler.pool", "streams")
    page = "http://127.0.0.1:4044"
    try:
        given = {"log": tmp_path, "state_dir": str(tmp_path / "state"), "slots": 2}
        with start(builder.build(), "shop", spark=spark, page=page, **given) as streams:
            streams.process_all_available()
            store = context._jsc.sc().statusStore()
            jobs = [store.jobsList(None).apply(number) for number in range(store.jobsList(None).size())]
            [job] = [one for one in jobs if str(one.jobGroup()) == "Some(penstock-shop)"]
            stage = store.lastStageAttempt(job.stageIds().apply(0))
    finally:
        context.setLocalProperty("spark.scheduler.pool", None)
    assert job.description().get() == f"penstock shop: 2 sub-topologies in 2 slots until it stops; its page: {page}"
    assert str(job.name()).startswith("collect at ")
    assert stage.schedulingPool() == "streams"
