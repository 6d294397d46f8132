"""Programs over a real Kafka broker under kill -9, by hand.

python tests/faults/kafka.py --kills 50 [--mode local|slots|spark] [--topology NAME] [--seed N]

A program is one process, or has slots of the local engine, or runs on Spark: the driver, the JVM, a slot or all of them
are killed at random moments. Now and then so is the broker, which is started again in the same folder. In the end a
reader of committed records has to see what a run that nothing disturbed has written, each record once, of each key in
order. The variable SINKS says where the rows of the topology ``sinking`` go: SQLite, ``duckdb``, ``delta`` or
``iceberg``.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import sinks
from penstock import JoinWindows, StreamsBuilder, Suppressed, TimeWindows, Topology, consume, produce
from penstock.engine.local import LocalApplication
from penstock.engine.running.arguments import AVAILABLE_NOW
from penstock.engine.running.start import start
from penstock.log.base import TopicInfo
from penstock.log.cluster import Kafka
from penstock.log.kafka.log import KafkaLog
from penstock.settings import Settings
from penstock.storage.base import LocalStorage
from penstock.testing.broker import Broker
from penstock.testing.chaos.processes import Program

RECORDS, KEYS, PARTITIONS = 20_000, 50, 2
_KINDS = {
    "local": ("driver",),
    "slots": ("driver", "slot", "slot", "slot", "all"),
    "spark": ("driver", "jvm", "slot", "slot", "all"),
}
_BROKER = 0.1
"""How often the broker is killed instead."""
_BEFORE = {"local": 1.5, "slots": 0.6, "spark": 6.0}
"""How many seconds a program has at most until a kill."""

Found = dict[bytes, list[tuple[bytes | None, int]]]
"""Of each key the values and times of its results, in order."""


def counts(source: str, sink: str) -> Topology:
    """Counts behind a repartition topic."""
    builder = StreamsBuilder()
    counted = builder.stream(source, value=int).group_by(lambda key, value: value % KEYS, key=int).count("counts")
    counted.to_stream().map_values(str, value=str).to(sink)
    return builder.build()


def windows(source: str, sink: str) -> Topology:
    """Sums in windows behind a repartition topic, each when its window closes."""
    builder = StreamsBuilder()
    grouped = builder.stream(source, value=int).group_by(lambda key, value: value % KEYS, key=int)
    windowed = grouped.windowed_by(TimeWindows.of_size_and_grace("1 s", "500 ms"))
    summed = windowed.aggregate(int, lambda key, value, total: total + value, value=int, store="sums")
    final = summed.suppress(Suppressed.until_window_closes()).to_stream()
    final.map(lambda key, total: (key.key, f"{key.start} {total}"), key=int, value=str).to(sink)
    return builder.build()


def joined(source: str, sink: str) -> Topology:
    """Each record with what a table has at its time, behind a repartition topic."""
    builder = StreamsBuilder()
    stream = builder.stream(source, value=int).select_key(lambda key, value: value % KEYS, key=int)
    table = builder.table("table", key=int, value=int, store="table")
    stream.join(table, lambda value, other: f"{value} {other}", value=str).to(sink)
    return builder.build()


def circling(source: str, sink: str) -> Topology:
    """Pairs of a stream's records with its own ones under new keys, which come back to the task that sent them."""
    builder = StreamsBuilder()
    stream = builder.stream(source, value=int).select_key(lambda key, value: value % KEYS, key=int).repartition()
    back = stream.select_key(lambda key, value: value // KEYS % KEYS, key=int)
    near = JoinWindows.of_time_difference_and_grace("50 ms", "500 ms")
    stream.join(back, lambda value, other: f"{value} {other}", near, value=str).to(sink)
    return builder.build()


def sinking(source: str, sink: str, folder: Path) -> Topology:
    """Counts as above, and each record as a row of a sink. A program of mode ``local`` hands no rows on."""
    builder = StreamsBuilder()
    numbers = builder.stream(source, key=str, value=int)
    numbers.to_sink(sinks.sink(folder, "rows"), "rows", key="key", value="n", timestamp=None)
    counted = numbers.group_by(lambda key, value: value % KEYS, key=int).count("counts")
    counted.to_stream().map_values(str, value=str).to(sink)
    return builder.build()


SINKING = "sinking"
TOPOLOGIES: dict[str, Callable[[str, str], Topology]] = {
    "counts": counts,
    "windows": windows,
    "joined": joined,
    "circling": circling,
}


def run(name: str, sink: str, servers: str, folder: Path, mode: str, commit_bytes: int = 4_000) -> None:
    """Process what is there, in many commits."""
    sizes = {"commit_max_bytes": commit_bytes, "chunk_records": 100, "statestore_cache_max_bytes": 0}
    folder.mkdir(parents=True, exist_ok=True)
    topology = sinking("in", sink, folder) if name == SINKING else TOPOLOGIES[name]("in", sink)
    if mode != "local":
        engine = "local" if mode == "slots" else "spark"
        given = {"log": Kafka(servers), "state_dir": folder, "trigger": AVAILABLE_NOW, "engine": engine, "slots": 2}
        on_progress = lambda progress: print(progress.commit, flush=True)  # noqa: E731
        start(topology, f"killed-{sink}", **given, **sizes, on_progress=on_progress).await_termination()
        return
    settings = Settings.load(environment={}, folder=folder, **sizes)
    log, storage = KafkaLog(Kafka(servers)), LocalStorage(folder / "checkpoint")
    application = LocalApplication(topology, f"killed-{sink}", settings, log, storage, folder / "tasks")
    print("runs", flush=True)
    application.run_until()
    application.close()


def results(servers: str, topic: str) -> Found:
    """What a topic has."""
    found: Found = {}
    for record in consume(topic, log=Kafka(servers)):
        found.setdefault(record.key, []).append((record.value, record.timestamp))
    return found


def kill_until_done(command: list[str], broker: Broker, kills: int, rng: random.Random, mode: str) -> Counter[str]:
    """Start the program again and again; what was killed until it ended by itself."""
    killed: Counter[str] = Counter()
    for _ in range(10 * kills + 10):
        program = Program(command)
        program.wait_for_commits(1)  # it has started
        while program.is_running and killed.total() < kills:
            time.sleep(rng.random() * _BEFORE[mode])
            kind = rng.choice(_KINDS[mode])
            if rng.random() < _BROKER:
                broker.kill()
                broker.start()
                killed["broker"] += 1
            elif kind == "all" and program.is_running:
                program.kill_what_is_left()
                killed["all"] += 1
            else:
                killed[kind] += program.is_running and program.kill(kind, rng)
        if program.wait(tidy=True):
            return killed
    raise AssertionError("it did not come to an end")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--commit-bytes", type=int, default=4_000)
    parser.add_argument("--topology", choices=[*TOPOLOGIES, SINKING], default="counts")
    parser.add_argument("--mode", choices=_KINDS, default="local")
    parser.add_argument("--servers")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--sink", default="out")
    parser.add_argument("--keep", action="store_true", help="add the kills to those in bench/RESULTS.md")
    given = parser.parse_args()
    if given.servers:
        run(given.topology, given.sink, given.servers, given.folder, given.mode, given.commit_bytes)
        return
    print(f"seed {given.seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder, Broker(Path(folder) / "broker") as broker:
        log = KafkaLog(Kafka(broker.servers))
        for name in ("in", "table", "out", "undisturbed"):
            log.create_topic(TopicInfo(name, PARTITIONS))
        produce([(f"k{n}", n, n + 1) for n in range(RECORDS)], "in", key=str, value=int, log=log)
        produce([(n % KEYS, n, 4 * n + 2) for n in range(RECORDS // 4)], "table", key=int, value=int, log=log)
        log.end_offsets("in")  # waits until it shows
        run(given.topology, "undisturbed", broker.servers, Path(folder) / "undisturbed", "local")
        command = [__file__, "--servers", broker.servers, "--folder", f"{folder}/killed", "--topology", given.topology]
        command += ["--commit-bytes", str(given.commit_bytes), "--mode", given.mode]
        killed = kill_until_done(command, broker, given.kills, random.Random(given.seed), given.mode)
        time.sleep(1)
        expected, found = results(broker.servers, "undisturbed"), results(broker.servers, "out")
        assert expected, "the undisturbed run wrote nothing"
        for key in sorted(expected.keys() | found.keys()):
            assert found.get(key) == expected.get(key), f"key {key!r} after {killed}: {found.get(key)}"
        if given.topology == SINKING and given.mode != "local":
            assert sinks.numbers_in(Path(folder) / "killed", "rows") == list(range(RECORDS)), (
                f"rows of the sink after {killed}"
            )
        count = sum(map(len, expected.values()))
        print(f"{killed.total()} kills, {dict(killed)}: each of {count} results of {given.topology} is there once")
        if given.keep:
            keep(killed, given.topology)


def keep(killed: Counter[str], topology: str) -> None:
    """Add the kills of a run to those that are among the results of the benchmark."""
    import figures

    title = "KAFKA-CHAOS: kill -9 at any instant, Kafka to Kafka"
    about = (
        "Programs of `tests/faults/kafka.py`, and their broker, killed at random until each was done; then a reader of "
        "committed records had to see what an undisturbed run had written, once. Kills of all runs that were kept."
    )
    known = figures.counts_of(title)
    counts = known | {f"kills: {what}": known.get(f"kills: {what}", 0) + number for what, number in killed.items()}
    runs = f"runs of {topology}"
    counts |= {runs: known.get(runs, 0) + 1}
    kills = sum(number for what, number in counts.items() if what.startswith("kills: "))
    rows = [figures.Row(what, f"{number}") for what, number in sorted(counts.items())]
    rows.append(replace(figures.at_least("kills in all", kills, 100), measured=f"{kills}"))
    figures.keep(title, about, [*rows, figures.none_differed("runs whose results")])


if __name__ == "__main__":
    main()
