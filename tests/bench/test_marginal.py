"""Marginal cost: who runs over how many records, and what comes of the runs."""

from pathlib import Path

from bench.digest import Digest
from bench.engines import Run
from bench.measure import Cost
from bench.plan import Plan
from bench.report import Row
from bench.workloads import Workload

from bench import marginal


class Engine:
    """Takes ten seconds to start, and some more for a million records."""

    def __init__(self, name, scale, seconds, broker=0.0):
        self.name, self.scale, self._seconds, self._broker = name, scale, seconds, broker
        self.ran = []

    def runs(self, workload):
        return True

    def expected(self, workload):
        return "W0"

    def at_least(self, workload):
        return workload.at_least

    def run(self, workload, inputs):
        self.ran.append(inputs["events"])
        millions = inputs["events"] / 1e6
        cost = Cost(10 + self._seconds * millions, 0, 7 + millions, [], {})
        return Run(cost, Digest(1), self._broker * millions)


def test_what_costs_little_is_run_over_more_and_the_whole_of_the_smallest_run_is_said():
    penstock, kafka = Engine("Penstock", 5, 0.5), Engine("Kafka Streams", 1, 4.0, broker=0.25)
    workload = Workload("W0", "nothing", Path, {"events": 2_000_000}, {"events": 4_000_000}, at_least=7)
    said = []

    section = marginal.measure(Plan(penstock, [kafka], 2, False, said.append), workload)

    assert penstock.ran == [2_000_000, 10_000_000, 20_000_000] * 2
    assert kafka.ran == [2_000_000, 4_000_000] * 2
    assert section.about == (
        "Marginal CPU seconds per million records: 10,000,000 events and 20,000,000 events (Penstock); 2,000,000 "
        "events and 4,000,000 events (Kafka Streams); who costs more is run over fewer, or it would take too long. "
        "All of: whole runs, from start to end."
    )
    assert section.rows == [
        Row("Penstock", "0.50 CPU s", "0.50 to 0.50"),
        Row("Kafka Streams", "4.00 CPU s", "4.00 to 4.00"),
        Row("Kafka Streams, its broker besides", "0.25 CPU s"),
        Row("Kafka Streams / Penstock", "8.0 times", "", "at least 7", True),
        Row("Penstock, all of 2,000,000 events", "11.0 CPU s", "11.0 to 11.0"),
        Row("Penstock, all of 2,000,000 events, time", "9.0 s", "9.0 to 9.0"),
        Row("Kafka Streams, all of 2,000,000 events", "18.0 CPU s", "18.0 to 18.0"),
        Row("Kafka Streams, all of 2,000,000 events, time", "9.0 s", "9.0 to 9.0"),
    ]
    assert said[0] == (
        "W0: nothing, 2,000,000 events, Penstock: 11.0 CPU s; 1 results, output not checked: "
        "Digest(records=1, result_keys=0, result_sum=0)"
    )


def test_a_workload_beside_another_is_compared_with_what_that_costs():
    penstock = Engine("Penstock", 5, 0.5)
    other = Workload("W5", "join", Path, {"events": 2_000_000}, {"events": 4_000_000})
    workload = Workload("W5v", "same", Path, other.few, other.many, beside=other, at_most=1.5)

    section = marginal.measure(Plan(penstock, [], 1, False, lambda text: None), workload)

    assert section.rows[:3] == [
        Row("Penstock", "0.50 CPU s"),
        Row("W5: join", "0.50 CPU s"),
        Row("W5v / W5", "1.00 times", "", "at most 1.5", True),
    ]


def test_where_state_grows_with_the_input_all_run_over_as_many():
    penstock, kafka = Engine("Penstock", 5, 0.5), Engine("Kafka Streams", 1, 4.0)
    few, many = {"events": 2_000_000}, {"events": 4_000_000}
    growing = Workload("W6", "join", Path, few, many, grows=True)
    alone = Workload("W6", "larger join", Path, few, many, alone=True)

    sections = [marginal.measure(Plan(penstock, [kafka], 1, False, print), workload) for workload in (growing, alone)]

    assert penstock.ran == [2_000_000, 4_000_000] * 2
    assert kafka.ran == [2_000_000, 4_000_000]
    assert [section.about for section in sections] == [
        "Marginal CPU seconds per million records: 2,000,000 events and 4,000,000 events (Penstock, Kafka Streams)."
        " All of: whole runs, from start to end.",
        "Marginal CPU seconds per million records: 2,000,000 events and 4,000,000 events (Penstock). All of: whole "
        "runs, from start to end.",
    ]
