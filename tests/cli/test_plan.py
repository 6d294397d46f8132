"""``penstock plan``: what a program needs, and how that was reckoned."""

from __future__ import annotations

import json

import pytest

from cli.conftest import Penstock
from penstock.cli.sizing import measured


def test_the_plan_shows_each_figure_with_its_arithmetic(penstock: Penstock):
    ran = penstock("plan", "--records-per-second", "1000000", "--keys", "10000000", "--kind", "table")
    assert ran.code == 0
    text = "\n".join(ran.out)
    cpu = measured().cpu_seconds_per_million_records["table"]
    for part in (f"1,000,000 records/s x {cpu:g} CPU s a million", "10,000,000 keys x", "Measured on 2 cores"):
        assert part in text


def test_more_keys_need_more_disk_and_longer_restores_and_more_records_more_slots(penstock: Penstock):
    def planned(records: int, keys: int) -> dict[str, float]:
        ran = penstock("plan", "--records-per-second", str(records), "--keys", str(keys), "--json")
        return dict(json.loads(ran.out[0]))

    little, more = planned(1_000, 1_000_000), planned(4_000_000, 100_000_000)
    assert little["slots"] == 1
    assert more["slots"] > 1
    assert more["disk"] == 100 * little["disk"]
    assert planned(1_000, 100_000_000)["restore_seconds"] > little["restore_seconds"]


def test_a_copy_needs_the_disk_once_more_and_some_memory(penstock: Penstock):
    def planned(*more: str) -> dict[str, float]:
        return dict(
            json.loads(penstock("plan", "--records-per-second", "10", "--keys", "1000000", "--json", *more).out[0])
        )

    without, copied = planned(), planned("--standby-replicas", "1")
    assert copied["disk"] == 2 * without["disk"]
    assert copied["slot_memory"] - without["slot_memory"] == 16 * (32 << 20), "16 tasks, a quarter of hot_max_bytes"
    assert copied["restore_seconds"] == without["restore_seconds"], "on a machine that has nothing"


def test_the_plan_gives_the_options_of_spark_submit(penstock: Penstock):
    given = ("--records-per-second", "4000000", "--keys", "1000000", "--partitions", "8", "--executor-cores", "2")
    found = json.loads(penstock("plan", *given, "--json").out[0])
    assert found["slots"] == 5
    overhead = -(-2 * found["slot_memory"] // (1 << 20))
    assert found["conf"] == [
        "spark.executor.instances=3",
        "spark.executor.cores=2",
        "spark.task.cpus=1",
        "spark.executor.memory=1g",
        f"spark.executor.memoryOverhead={overhead}m",
        "spark.driver.memory=1g",
        "spark.driver.memoryOverhead=848m",
    ]
    text = "\n".join(penstock("plan", *given).out)
    assert "--conf spark.executor.instances=3 --conf spark.executor.cores=2 --conf spark.task.cpus=1" in text
    assert "Leave spark.executor.pyspark.memory unset" in text


def test_too_few_partitions_for_so_many_records_are_told(penstock: Penstock):
    ran = penstock("plan", "--records-per-second", "9000000", "--keys", "0", "--kind", "table", "--partitions", "2")
    assert any("2 partitions are too few" in line for line in ran.out)


@pytest.mark.parametrize("wrong", [("--keys", "-1"), ("--row", "-1"), ("--partitions", "0"), ("--row", "wide")])
def test_what_cannot_be_is_refused(penstock: Penstock, wrong: tuple[str, str]):
    ran = penstock("plan", "--records-per-second", "1", "--keys", "1", *wrong)
    assert ran.code != 0
    assert wrong[0] in "\n".join(ran.err)
