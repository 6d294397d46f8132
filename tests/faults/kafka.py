"""A program over a real Kafka broker under kill -9, by hand: python tests/faults/kafka.py --kills 100

Its driver and its tasks are one process, which is killed at random moments; now and then so is the broker, which is
started again in the same folder. In the end a reader of committed records has to see each result once.
"""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from penstock import StreamsBuilder, Topology, consume, produce
from penstock.engine.local import LocalApplication
from penstock.log.base import TopicInfo
from penstock.log.cluster import Kafka
from penstock.log.kafka.log import KafkaLog
from penstock.settings import Settings
from penstock.storage import LocalStorage
from penstock.testing.broker import Broker

RECORDS, KEYS = 20_000, 50


def topology() -> Topology:
    builder = StreamsBuilder()
    counts = builder.stream("in", value=int).group_by(lambda key, value: value, key=int).count("counts")
    counts.to_stream().map_values(str, value=str).to("out")
    return builder.build()


def run(servers: str, folder: Path) -> None:
    """Process what is there, in many commits."""
    settings = Settings.load(
        environment={}, folder=folder, commit_max_bytes=4_000, chunk_records=100, statestore_cache_max_bytes=0
    )
    log, storage = KafkaLog(Kafka(servers)), LocalStorage(folder / "checkpoint")
    application = LocalApplication(topology(), "killed", settings, log, storage, folder / "tasks")
    print("runs", flush=True)
    application.run_until()
    application.close()


def results(servers: str) -> dict[bytes, list[bytes]]:
    """Of each key its results, in their order."""
    found: dict[bytes, list[bytes]] = {}
    for record in consume("out", log=Kafka(servers)):
        found.setdefault(record.key, []).append(record.value)
    return found


def kill_until_done(broker: Broker, folder: Path, kills: int, rng: random.Random) -> int:
    """Start the program again and again; how often it, or the broker, was killed before it ended by itself."""
    killed = 0
    for _ in range(10 * kills):
        command = [sys.executable, __file__, "--servers", broker.servers, "--folder", str(folder)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as program:
            assert program.stdout is not None
            program.stdout.readline()  # it has started
            time.sleep(rng.random() * 1.5)
            if killed < kills and program.poll() is None:
                killed += 1
                if rng.random() < 0.1:
                    broker.kill()
                    broker.start()
                else:
                    program.send_signal(signal.SIGKILL)
            if program.wait() == 0:
                return killed
    raise AssertionError("it did not come to an end")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--servers")
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    if given.servers:
        run(given.servers, given.folder)
        return
    print(f"seed {given.seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder, Broker(Path(folder) / "broker") as broker:
        log = KafkaLog(Kafka(broker.servers))
        for name in ("in", "out"):
            log.create_topic(TopicInfo(name, 2))
        produce([(f"k{n}", n % KEYS, n + 1) for n in range(RECORDS)], "in", key=str, value=int, log=log)
        log.end_offsets("in")  # waits until it shows
        killed = kill_until_done(broker, Path(folder), given.kills, random.Random(given.seed))
        time.sleep(1)
        expected = {n.to_bytes(8, "big"): [b"%d" % c for c in range(1, RECORDS // KEYS + 1)] for n in range(KEYS)}
        assert results(broker.servers) == expected, f"after {killed} kills"
        print(f"{killed} kills, and each of {RECORDS} results is there once")


if __name__ == "__main__":
    main()
