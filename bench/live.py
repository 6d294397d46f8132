"""Penstock and Kafka Streams on the same topics of one broker: what they write has to be the same, record by record.

    python -m bench.live W0 W1 ... [--records 100000]

Of each key the values, times and headers are compared in their order; where tasks race in Kafka Streams itself (W6 and
W7 go through topics that several tasks write), the last one of each key. It needs the peers' harness, as the benchmark.
"""

from __future__ import annotations

import os
import sys
from itertools import pairwise

import click

from bench import data
from bench.cluster import Cluster
from bench.kafka import KafkaStreams, beside
from bench.measure import RunError
from bench.on_kafka import PenstockOnKafka, measured
from bench.run import PEERS
from bench.workloads import Inputs, Workload

_RACES = ("W6", "W7")

Rows = dict[bytes, list[tuple[object, ...]]]
"""Of each key what was written, in order."""


@click.command()
@click.argument("workloads", nargs=-1, required=True, type=click.Choice([one.name for one in measured()]))
@click.option("--records", default=100_000, show_default=True, help="How many records of the largest input.")
def main(workloads: tuple[str, ...], records: int) -> None:
    """Compare what both write in WORKLOADS."""
    differ = False
    with beside(os.environ.get(PEERS)) as peers:
        for workload in (one for one in measured() if one.name in workloads):
            largest = max(workload.few.values())
            inputs = {name: count * records // largest for name, count in workload.few.items()}
            said = compared(peers[0], workload, inputs)
            differ |= "DIFFERENT" in said
            print(f"{workload.title}, {inputs}: {said}", flush=True)
    sys.exit(differ)


def compared(peer: KafkaStreams, workload: Workload, inputs: Inputs) -> str:
    """How many records both wrote, or where they differ."""
    found = []
    for engine in (peer, PenstockOnKafka(peer.cluster)):
        with engine.written(workload, inputs) as (sink, _, _):
            found.append(rows(peer.cluster, sink))
    if workload.name in _RACES:
        found = [{key: every[-1:] for key, every in one.items()} for one in found]
    for one, other in pairwise(found):
        for key in sorted(one.keys() | other.keys()):
            if one.get(key) != other.get(key):
                return f"DIFFERENT at key {key!r}: Kafka Streams {one.get(key)!r}, Penstock {other.get(key)!r}"
    count, what = sum(map(len, found[0].values())), "last records" if workload.name in _RACES else "records"
    if not count:
        raise RunError(f"{workload.title} wrote nothing")
    return f"the same {count:,} {what} of {len(found[0]):,} keys"


def rows(cluster: Cluster, topic: str) -> Rows:
    """What a topic holds, as a reader of committed records sees it."""
    found: Rows = {}
    for partition in range(data.PARTITIONS):
        for message in cluster.messages(topic, partition):
            row = message.value(), message.timestamp()[1], message.headers(), partition
            found.setdefault(message.key(), []).append(row)
    return found


if __name__ == "__main__":
    main()
