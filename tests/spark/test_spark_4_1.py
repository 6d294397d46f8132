"""What exists for Spark 4.1 only: tables of Iceberg, and batches with Apache DataFusion Comet."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.maven import jar
from support.spark_4_1 import run

pytestmark = pytest.mark.slow


def test_a_batch_with_comet_gives_the_same_results_and_stays_in_arrow_behind_the_exchange(tmp_path: Path) -> None:
    found = run("comet", tmp_path, jar("org.apache.datafusion", "comet-spark-spark4.1_2.13", "1.2.0"))
    assert found["same"]
    assert found["rows"] > 1000
    assert found["steps"] == ["CometNativeScan", "CometColumnarExchange", "CometSort", "CometMapInBatch"]


def test_tables_of_iceberg_get_each_record_once_and_follow_updates_and_deletions(tmp_path: Path) -> None:
    found = run("iceberg", tmp_path, jar("org.apache.iceberg", "iceberg-spark-runtime-4.1_2.13", "1.12.0"))
    first = [["a", 1], ["a", 3], ["b", 2]]
    assert found == [
        [first, [["a", 4], ["b", 2]]],
        [sorted([*first, ["a", 1], ["b", 99], ["c", 5]]), [["a", 5], ["c", 5]]],
    ]
