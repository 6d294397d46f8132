"""The workloads put out what Kafka Streams' rules say, and the recorded figures follow from the same rules."""

import json
from collections import Counter, defaultdict
from itertools import chain

import msgspec
import pytest
from bench.digest import Digest, check
from bench.measure import RunError
from bench.workloads import WORKLOADS

from bench import data
from penstock.arrays import partitions
from penstock.testing import TopologyTestDriver

MINUTE, GRACE = 60_000, 10_000
EVERY_UPDATE = [workload for workload in WORKLOADS if not workload.cache]


def filtered(placed):
    events = [(key, json.loads(value)) for key, value, _ in chain(*placed)]
    return [(key, {"id": event["id"], "amount": event["amount"]}) for key, event in events if event["amount"] > 20]


def window_counts(placed):
    """A record does not count when its window had ended by the partition's stream time less the grace period."""
    counts, updates = Counter(), []
    for rows in placed:
        stream_time = -1
        for key, _, timestamp in rows:
            stream_time = max(stream_time, timestamp)
            start = timestamp - timestamp % MINUTE
            if start + MINUTE > stream_time - GRACE:
                counts[key, start] += 1
                updates.append((key, {"w": start, "n": counts[key, start]}))
    return updates


def final_window_counts(placed):
    """The last count of each key and window that has ended by the partition's stream time less the grace period."""
    results = []
    for rows in placed:
        closed = max(timestamp for _, _, timestamp in rows) - GRACE
        last = {(key, value["w"]): value for key, value in window_counts([rows])}
        ended = sorted((start, key) for key, start in last if start + MINUTE <= closed)
        results += [(key, last[key, start]) for start, key in ended]
    return results


def deduplicated(placed):
    """An event is kept when none of its key and id was kept within ten minutes before or after it."""
    kept, out = defaultdict(list), []
    for key, value, timestamp in chain(*placed):
        event = json.loads(value)
        times = kept[key, event["id"]]
        if all(abs(timestamp - time) > 10 * MINUTE for time in times):
            times.append(timestamp)
            out.append((key, event))
    return out


def region_totals(placed):
    """An account that moves is put out twice: its old region without it, its new region with it."""
    accounts, numbers, sums, updates = {}, Counter(), Counter(), []

    def put_out(region):
        updates.append((region.encode(), {"n": numbers[region], "sum": sums[region]}))

    for key, value, _ in chain(*placed):
        new, old = json.loads(value), accounts.get(key)
        accounts[key] = new
        if old is not None:
            numbers[old["region"]] -= 1
            sums[old["region"]] -= old["amount"]
            if old["region"] != new["region"]:
                put_out(old["region"])
        numbers[new["region"]] += 1
        sums[new["region"]] += new["amount"]
        put_out(new["region"])
    return updates


RULES = {"W0": filtered, "W1": window_counts, "W2": final_window_counts, "W4": deduplicated, "W7": region_totals}


def placed_rows(inputs, share, partition_count):
    """A share of the one set that a workload reads: for each partition its (key, value, timestamp)."""
    ((name, count),) = inputs.items()
    key, value, timestamp = data.SETS[name](int(count * share))
    rows = list(zip(key.to_pylist(), value.to_pylist(), timestamp.tolist()))
    places = partitions(key, partition_count, 0).tolist()
    return [[row for row, place in zip(rows, places) if place == partition] for partition in range(partition_count)]


@pytest.mark.parametrize("workload", EVERY_UPDATE, ids=lambda workload: workload.name)
def test_a_workload_puts_out_what_the_rules_say(workload):
    placed = placed_rows(workload.few, 0.1 if workload.name == "W2" else 0.002, 1)  # windows have to end
    driver = TopologyTestDriver(workload.topology("in", "out"), statestore_cache_max_bytes=0)

    for key, value, timestamp in placed[0]:
        driver.pipe_input("in", key.decode(), value if workload.name in ("W1", "W2") else json.loads(value), timestamp)

    out = [(record.key.encode(), as_json(record.value)) for record in driver.read_output("out")]
    assert out == RULES[workload.name](placed)


def as_json(value):
    return json.loads(value) if isinstance(value, str) else msgspec.to_builtins(value)


@pytest.mark.parametrize("workload", EVERY_UPDATE, ids=lambda workload: workload.name)
def test_the_expected_figures_of_the_quick_sizes_follow_from_the_rules(workload):
    placed = placed_rows(workload.few, 0.1, 2)
    updates = RULES[workload.name](placed)
    *by, summed = workload.result or [""]
    last = {(key, *(value[field] for field in by)): value[summed] for key, value in updates if summed}

    found = Digest(len(updates), len(last), sum(last.values()))

    assert check(workload.name, sum(map(len, placed)), found, is_every_update=True)


def test_another_output_than_expected_is_an_error():
    with pytest.raises(RunError) as error:
        check("W0", 100_000, Digest(80_490), is_every_update=True)

    assert str(error.value) == (
        "W0 over 100,000 records put out Digest(records=80490, result_keys=0, result_sum=0), "
        "but expected is Digest(records=80491, result_keys=0, result_sum=0)"
    )


def test_with_caching_only_the_table_in_the_end_counts():
    table = {"result_keys": 37_400, "result_sum": 99_489}

    assert check("W1", 100_000, Digest(40_000, **table), is_every_update=False)
    with pytest.raises(RunError):
        check("W1", 100_000, Digest(40_000, **table), is_every_update=True)
