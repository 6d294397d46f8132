"""The workloads put out what Kafka Streams' rules say, and the recorded figures follow from the same rules."""

import json
from collections import Counter, defaultdict
from heapq import heappop, heappush
from itertools import chain, count, groupby
from operator import itemgetter

import msgspec
import pytest
from bench.digest import Digest, check
from bench.measure import RunError
from bench.workloads import WORKLOADS

from bench import data
from penstock.arrays import partitions
from penstock.testing import TopologyTestDriver
from support.sliding_reference import Reference

MINUTE, GAP, GRACE = 60_000, 30_000, 10_000
BYTES = ("W1", "W2", "W3", "SLIDE", "W10", "W11")
"""The workloads that do not look into their values."""
EVERY_UPDATE = [workload for workload in WORKLOADS if not workload.cache and not workload.alone]


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


def means(placed):
    """Of the records that count as in ``window_counts``, under the key and the start of the window."""
    totals, updates = Counter(), []
    for rows in placed:
        stream_time = -1
        for key, value, timestamp in rows:
            stream_time = max(stream_time, timestamp)
            start = timestamp - timestamp % MINUTE
            if start + MINUTE > stream_time - GRACE:
                place = b"%b@%d" % (key, start)
                totals[place, "n"] += 1
                totals[place, "sum"] += json.loads(value)["amount"]
                updates.append((place, {"mean": totals[place, "sum"] / totals[place, "n"], "n": totals[place, "n"]}))
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


def session_counts(placed):
    """The sessions that a record touches go, and one comes; the store forgets those that ended gap and grace ago."""
    updates = []
    for rows in placed:
        sessions, stream_time, newest_end = defaultdict(list), -1, -1
        for key, _, timestamp in rows:
            stream_time = max(stream_time, timestamp)
            known = [one for one in sessions[key] if one[1] > newest_end - GRACE - GAP]
            near = [one for one in known if one[0] - GAP <= timestamp <= one[1] + GAP]
            start, end = min([timestamp, *(one[0] for one in near)]), max([timestamp, *(one[1] for one in near)])
            if end < stream_time - GRACE - GAP:
                continue
            count = 1 + sum(one[2] for one in near)
            sessions[key] = sorted([one for one in known if one not in near] + [(start, end, count)])
            newest_end = max(newest_end, end)
            if (start, end) != (timestamp, timestamp):
                updates += [(key, {"s": one[0], "e": one[1], "n": None}) for one in near]
            updates.append((key, {"s": start, "e": end, "n": count}))
    return updates


def sliding_counts(placed):
    """By the text of Kafka Streams, record by record: ``support.sliding_reference``."""
    updates = []
    for rows in placed:
        reference = Reference(10_000, GRACE, 2 * 10_000 + GRACE, lambda count, _: (count or 0) + 1, lambda _: 0)
        for key, value, timestamp in rows:
            reference.process(key, value, timestamp)
        updates += [(key, {"w": start, "n": count}) for key, start, count, _ in reference.updates]
    return updates


def deduplicated(placed):
    """KIP-655: an event is kept when its key and id have no entry; entries go when they are older than ten minutes."""
    out = []
    for rows in placed:
        entries, stream_time = {}, -1
        for key, value, timestamp in rows:
            event = json.loads(value)
            stream_time = max(stream_time, timestamp)
            entry = entries.get((key, event["id"]), -1)
            if entry >= stream_time - 10 * MINUTE and abs(timestamp - entry) <= 10 * MINUTE:
                continue
            if timestamp >= stream_time - 10 * MINUTE:
                entries[key, event["id"]] = timestamp
            out.append((key, event))
    return out


def deduplicated_by_the_tutorial(placed):
    """What Kafka Streams' tutorial does: no other of the key and id was kept within ten minutes before or after."""
    kept, out = defaultdict(list), []
    for key, value, timestamp in chain(*placed):
        event = json.loads(value)
        times = kept[key, event["id"]]
        if all(abs(timestamp - time) > 10 * MINUTE for time in times):
            times.append(timestamp)
            out.append((key, event))
    return out


def key_counts(placed):
    counts, updates = Counter(), []
    for key, _, _ in chain(*placed):
        counts[key] += 1
        updates.append((key, {"n": counts[key]}))
    return updates


def key_and_minute_counts(placed):
    """And a record for each punctuation, of which one is as good as many."""
    counts, updates = Counter(), [(b"tick", {"w": 0, "n": 0})]
    for key, _, timestamp in chain(*placed):
        start = timestamp - timestamp % MINUTE
        counts[key, start] += 1
        updates.append((key, {"w": start, "n": counts[key, start]}))
    return updates


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


def in_time_order(*sides):
    """The records of several topics as they are processed: the one goes on whose next record is the earliest.

    Each comes with its topic's number and the topic's stream time.
    """
    waiting = [list(reversed(rows)) for rows in sides]
    stream_time = [-1] * len(sides)
    while any(waiting):
        side = min((side for side, rows in enumerate(waiting) if rows), key=lambda side: waiting[side][-1][2])
        key, value, timestamp = waiting[side].pop()
        stream_time[side] = max(stream_time[side], timestamp)
        yield side, stream_time[side], key, value, timestamp


def with_user(event, user):
    return {"id": event["id"], "amount": event["amount"], "tier": user["tier"]}


def with_users(events, users):
    """Events with the last value of their user."""
    out = []
    for sides in zip(events, users):
        known = {}
        for side, _, key, value, _ in in_time_order(*sides):
            if side:
                known[key] = json.loads(value)
            elif key in known:
                out.append((key, with_user(json.loads(value), known[key])))
    return out


def with_users_as_of(events, users, grace=None):
    """Events with the value that their user had at their time, looked up when the grace period is over."""
    return [result for sides in zip(events, users) for result in partition_as_of(*sides, grace)]


def partition_as_of(events, users, grace):
    versions, waiting, number, now, out = defaultdict(dict), [], count(), -1, []

    def look_up(key, event, timestamp):
        valid = [since for since in versions[key] if since <= timestamp]
        if valid and (max(valid) == max(versions[key]) or timestamp >= now - 10 * MINUTE):
            out.append((key, with_user(event, versions[key][max(valid)])))

    for side, stream_time, key, value, timestamp in in_time_order(events, users):
        if side:
            now = stream_time
            versions[key][timestamp] = json.loads(value)
        elif grace is None or timestamp < stream_time - grace:
            look_up(key, json.loads(value), timestamp)
        else:
            heappush(waiting, (timestamp, key, next(number), json.loads(value)))
            while waiting and waiting[0][0] + grace <= stream_time:
                since, own, _, event = heappop(waiting)
                look_up(own, event, since)
    return out


def with_users_after_a_while(events, users):
    return with_users_as_of(events, users, GRACE)


def with_customers(orders, customers):
    """The orders with the last value of their customer."""
    last = {key.decode(): json.loads(value) for key, value, _ in chain(*customers)}
    out = [(key, json.loads(value)) for key, value, _ in chain(*orders)]
    return [(key, {**order, "tier": last[order["cust"]]["tier"]}) for key, order in out]


def pairs_near_in_time(views, clicks):
    """Every view with every click of the same key that is at most ten seconds away."""
    by_key = defaultdict(list)
    for key, value, timestamp in chain(*clicks):
        by_key[key].append((json.loads(value), timestamp))
    return [
        (key, {"view": json.loads(value)["id"], "click": click["id"], "amount": click["amount"]})
        for key, value, timestamp in chain(*views)
        for click, since in by_key[key]
        if abs(timestamp - since) <= 10_000
    ]


RULES = {
    "JOIN": pairs_near_in_time,
    "MEAN": means,
    "SLIDE": sliding_counts,
    "W0": filtered,
    "W1": window_counts,
    "W10": key_counts,
    "W11": key_and_minute_counts,
    "W2": final_window_counts,
    "W3": session_counts,
    "W4": deduplicated,
    "W5": with_users,
    "W5v": with_users_as_of,
    "W5vg": with_users_after_a_while,
    "W6": with_customers,
    "W7": region_totals,
}


def placed_rows(inputs, partition_count, *shares):
    """Shares of the sets that a workload reads: of each set, for each partition, its (key, value, timestamp)."""
    sizes = zip(inputs.items(), shares * len(inputs))
    return [placed_set(name, int(records * share), partition_count) for (name, records), share in sizes]


def placed_set(name, records, partition_count):
    key, value, timestamp = data.SETS[name](records)
    rows = list(zip(key.to_pylist(), value.to_pylist(), timestamp.tolist()))
    places = partitions(key, partition_count, 0).tolist()
    return [[row for row, place in zip(rows, places) if place == partition] for partition in range(partition_count)]


SHARES = {"W2": (0.06,), "W5": (0.003, 0.05), "W5v": (0.003, 0.05), "W5vg": (0.012, 0.05), "JOIN": (0.01,)}
"""Of the sets of the smaller runs: windows have to end, and users to be known."""
THINNED = {"W2": 50}
"""Of these only every so-many-th record, so that windows end after fewer of them."""


@pytest.mark.slow
@pytest.mark.parametrize("workload", EVERY_UPDATE, ids=lambda workload: workload.name)
def test_a_workload_puts_out_what_the_rules_say(workload):
    placed = placed_rows(workload.few, 1, *SHARES.get(workload.name, (0.002,)))
    placed = [[rows[:: THINNED.get(workload.name, 1)] for rows in side] for side in placed]
    topics = list(workload.few)
    driver = TopologyTestDriver(workload.topology(*topics, "out"), statestore_cache_max_bytes=0)

    read = bytes if workload.name in BYTES else json.loads
    for side, records in groupby(in_time_order(*(rows for (rows,) in placed)), itemgetter(0)):
        rows = [(key.decode(), read(value), timestamp) for _, _, key, value, timestamp in records]
        driver.pipe_record_list(topics[side], rows)

    out = [(record.key.encode(), as_json(record.value)) for record in driver.read_output("out")]
    expected = RULES[workload.name](*placed)
    if workload.name == "JOIN":  # in the order in which the later record of each pair comes
        out, expected = sorted(map(str, out)), sorted(map(str, expected))
    assert out == expected if workload.is_exact else dict(out) == dict(expected)
    assert len(expected) > 50


def as_json(value):
    return json.loads(value) if isinstance(value, str) else msgspec.to_builtins(value)


@pytest.mark.slow
@pytest.mark.parametrize("workload", EVERY_UPDATE, ids=lambda workload: workload.name)
def test_the_expected_figures_of_the_quick_sizes_follow_from_the_rules(workload):
    placed = placed_rows(workload.few, 2, 0.1)
    updates = RULES[workload.name](*placed)
    *by, summed = workload.result or [""]
    last = {(key, *(value[field] for field in by)): value[summed] for key, value in updates if summed}
    values = [value for value in last.values() if value is not None]

    found = Digest(len(updates), len(values), sum(values))

    assert check(workload.name, sum(map(len, chain(*placed))), found, workload.is_exact)


def test_the_tutorials_rule_keeps_as_many_events_as_that_of_kip_655():
    placed = placed_set("events", 100_000, 2)

    assert deduplicated_by_the_tutorial(placed) == deduplicated(placed)
    assert check("W4", 100_000, Digest(len(deduplicated(placed))), is_every_update=True)


def test_sparks_own_operator_keeps_each_id_once():
    (rows,) = placed_set("events", 100_000, 1)
    ids = {json.loads(value)["id"] for _, value, _ in rows}

    assert check("W4 by Spark", 100_000, Digest(len(ids)), is_every_update=True)


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
