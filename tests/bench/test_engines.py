"""A workload as the benchmark runs it: a process of its own, on Spark, over topics that it makes."""

import pytest
from bench.digest import Digest, check
from bench.engines import Penstock
from bench.measure import RunError
from bench.spark import SparkOperators
from bench.workloads import WORKLOADS

WORKLOAD = next(workload for workload in WORKLOADS if workload.name == "W1" and workload.cache)


@pytest.mark.slow
def test_a_run_puts_out_the_expected_table_and_leaves_only_its_input(tmp_path):
    penstock = Penstock(tmp_path)

    run = penstock.run(WORKLOAD, {"events": 100_000})

    assert run.digest._replace(records=0) == Digest(records=0, result_keys=37_400, result_sum=99_489)
    assert run.digest.records < 99_489  # caching: fewer than every update
    assert run.cost.cpu > 1
    assert 1 <= len(run.cost.slots) <= 2
    assert penstock.log.topics() == ["events-100000"]


@pytest.mark.slow
def test_sparks_own_join_of_streams_puts_out_the_same_pairs(tmp_path):
    spark = SparkOperators(tmp_path)
    workload = next(workload for workload in WORKLOADS if workload.name == "JOIN")

    run = spark.run(workload, {"views": 20_000, "clicks": 20_000})

    assert check(spark.expected(workload), 40_000, run.digest, is_every_update=True)


def test_a_work_folder_is_for_one_benchmark_at_a_time(tmp_path):
    first = Penstock(tmp_path)

    with pytest.raises(RunError, match="another benchmark works in"):
        Penstock(tmp_path)

    assert first.log.topics() == []


@pytest.mark.slow
def test_sparks_own_operator_drops_what_has_an_id_for_the_second_time(tmp_path):
    spark = SparkOperators(tmp_path)
    w4 = next(workload for workload in WORKLOADS if workload.name == "W4")

    run = spark.run(w4, {"events": 100_000})

    assert [workload.name for workload in WORKLOADS if spark.runs(workload)] == ["W4", "JOIN"]
    assert check(spark.expected(w4), 100_000, run.digest, is_every_update=True)
    assert run.cost.cpu > 1
    assert [path.name for path in (tmp_path / "spark").iterdir()] == ["events-100000"]
