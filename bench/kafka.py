"""Kafka Streams beside it: the peer of an outside harness, over a broker of its own, measured in the same way.

Everything the harness needs comes from its own environment variables (``BENCH_WORK``, ``BENCH_CP_FILE``, ...).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bench import data
from bench.digest import digest
from bench.engines import Run
from bench.measure import RunError, process_cpu, run
from bench.workloads import Inputs, Workload

PEER = "peers/kstreams/run"
OWN_PEER = Path(__file__).with_name("peers") / "Peer.java"
TIMEOUT = 900
_DEFAULT_SIZES = {
    "events": 1_000_000,
    "accounts": 500_000,
    "table": 100_000,
    "orders": 100_000,
    "customers": 20_000,
}
"""The sizes whose topics bear the plain name in the harness."""
_OWN_SETS = ("views", "clicks")
"""The sets that the harness does not have."""


@contextmanager
def beside(harness: str | None) -> Iterator[list[KafkaStreams]]:
    """Kafka Streams ready to run, if there is a harness; its broker runs meanwhile, and afterwards if it did before."""
    if harness is None:
        yield []
        return
    peer = KafkaStreams(Path(harness))
    was_started = peer.start_broker()
    try:
        peer.prepare()
        yield [peer]
    finally:
        if was_started:
            peer.stop_broker()


class KafkaStreams:
    """Kafka Streams with exactly-once, as the harness runs it.

    Args:
        harness: its folder, with ``broker.sh``, ``gen.py`` and ``peers/kstreams/run``.

    Raises:
        RunError: something that the harness needs is missing; the message says what.
    """

    name = "Kafka Streams"
    scale = 1

    def __init__(self, harness: Path):
        self._harness = harness.resolve()
        if not (self._harness / PEER).is_file():
            raise RunError(f"{harness} holds no {PEER}: give the folder of a peers' harness")
        missing = [name for name in ("BENCH_WORK", "BENCH_CP_FILE") if not os.environ.get(name)]
        if missing:
            raise RunError(f"set {' and '.join(missing)} as {harness}/README.md says")
        self._work = Path(os.environ["BENCH_WORK"]).resolve()
        self._bootstrap = os.environ.get("BENCH_BOOTSTRAP", "127.0.0.1:39092")
        self._admin: Any = None

    def runs(self, workload: Workload) -> bool:
        return True

    def expected(self, workload: Workload) -> str:
        return workload.name

    def at_least(self, workload: Workload) -> float:
        return workload.at_least

    def run(self, workload: Workload, inputs: Inputs) -> Run:
        sources = [self._loaded(name, count) for name, count in inputs.items()]
        sink = f"out-bench-{uuid.uuid4().hex[:8]}"
        folder = self._work / f"run-{sink}"
        folder.mkdir(parents=True)
        self._admin.create_topics([NewTopic(sink, data.PARTITIONS, 1, config={"retention.ms": "-1"})])[sink].result()
        command = [*self._program(workload), "--workload", workload.name, "--bootstrap", self._bootstrap]
        command += ["--in-topic", ",".join(sources), "--out-topic", sink, "--records", str(sum(inputs.values()))]
        command += ["--work", str(folder), "--opt", "guarantee=eos", *([] if workload.cache else ["--opt", "cache=0"])]
        broker = self._broker_pid() or -1
        try:
            before = process_cpu(broker)
            cost = run(command)
            broker_cpu = process_cpu(broker) - before
            if not cost.said.get("ok"):
                raise RunError(f"Kafka Streams did not finish {workload.title}: {cost.said}")
            output = (self._read(sink, partition) for partition in range(data.PARTITIONS))
            return Run(cost, digest(workload.result, output), broker_cpu)
        finally:
            self._remove(sink)
            shutil.rmtree(folder, ignore_errors=True)

    def latency(self, rate: int, warm_up: int, seconds: int) -> tuple[float, float, float]:
        """The median and the 99th percentile of its latency in milliseconds, and the CPU seconds a second it takes."""
        python = os.environ.get("BENCH_PY", sys.executable)
        command = [python, str(self._harness / "latency.py"), "--peer", "kstreams", "--rate", str(rate)]
        command += ["--warm", str(warm_up), "--seconds", str(seconds), "--bootstrap", self._bootstrap]
        options = ("guarantee=eos", "commit-ms=100", "cache=0")
        said = run([*command, *(word for option in options for word in ("--opt", option))]).said
        return said["p50_ms"], said["p99_ms"], said["cpu_share"]

    def start_broker(self) -> bool:
        """Start the harness's broker if it is not running; whether it was started."""
        if self._broker_pid() is not None:
            return False
        self._command([str(self._harness / "broker.sh"), "start"])
        return True

    def stop_broker(self) -> None:
        self._command([str(self._harness / "broker.sh"), "stop"])

    def prepare(self) -> None:
        """Connect to the broker and compile the peer."""
        self._admin = AdminClient({"bootstrap.servers": self._bootstrap})
        self._topics()
        self._command([str(self._harness / PEER), "--build"])

    def _program(self, workload: Workload) -> list[str]:
        """What runs a workload: the harness's peer, or a program of our own with the libraries of the peer."""
        if not workload.own_peer:
            return [str(self._harness / PEER)]
        libraries = Path(os.environ["BENCH_CP_FILE"]).read_text().strip()
        return ["java", "-Xmx1g", "-cp", libraries, str(OWN_PEER)]

    def _loaded(self, name: str, count: int) -> str:
        """The topic with a set of so many records, made when it is not there; its name."""
        topic = _topic(name, count)
        if self._records(topic) != count:
            if name in _OWN_SETS:
                self._fill(topic, data.SETS[name](count))
            else:
                python = os.environ.get("BENCH_PY", sys.executable)
                arguments = ["--set", name, "--n", str(count), "--bootstrap", self._bootstrap, "--topic", topic]
                self._command([python, str(self._harness / "gen.py"), *arguments, *_options(name, count)])
            if self._records(topic) != count:
                raise RunError(f"topic {topic} holds {self._records(topic)} records after loading, not {count}")
        return topic

    def _fill(self, topic: str, columns: data.Columns) -> None:
        """Write a set that the harness does not know into a topic, which is made anew."""
        if topic in self._topics():
            self._admin.delete_topics([topic])[topic].result()
            time.sleep(2)
        self._admin.create_topics([NewTopic(topic, data.PARTITIONS, 1, config={"retention.ms": "-1"})])[topic].result()
        settings = {"bootstrap.servers": self._bootstrap, "partitioner": "murmur2_random", "linger.ms": 50}
        producer = Producer({**settings, "enable.idempotence": True})
        key, value, timestamp = columns
        for row in zip(key.to_pylist(), value.to_pylist(), timestamp.tolist(), strict=True):
            while True:
                try:
                    producer.produce(topic, row[1], row[0], timestamp=row[2])
                    break
                except BufferError:
                    producer.poll(0.05)
        producer.flush()

    def _read(self, topic: str, partition: int) -> tuple[Any, Any]:
        """Keys and values of a partition, as a reader of committed records sees them."""
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": f"bench-{uuid.uuid4().hex}",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
                "fetch.message.max.bytes": 8 << 20,
            }
        )
        consumer.assign([TopicPartition(topic, partition, 0)])
        keys: list[bytes] = []
        values: list[bytes] = []
        deadline = time.monotonic() + TIMEOUT
        try:
            while time.monotonic() < deadline:
                for message in consumer.consume(20_000, 1.0):
                    error = message.error()
                    if error and error.code() == KafkaError._PARTITION_EOF:
                        return pa.array(keys, pa.binary()), pa.array(values, pa.binary())
                    if error:
                        raise RunError(f"reading {topic} failed: {error}")
                    keys.append(message.key())
                    values.append(message.value())
        finally:
            consumer.close()
        raise RunError(f"reading {topic} took more than {TIMEOUT} s")

    def _records(self, topic: str) -> int:
        """How many records a topic holds; 0 when it is not there."""
        if topic not in self._topics():
            return 0
        consumer = Consumer({"bootstrap.servers": self._bootstrap, "group.id": "bench-size"})
        try:
            ends = [
                consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=30)
                for partition in range(data.PARTITIONS)
            ]
        except KafkaException as error:
            raise RunError(f"topic {topic} cannot be read: {error}") from error
        finally:
            consumer.close()
        return sum(high - low for low, high in ends)

    def _topics(self) -> list[str]:
        try:
            return list(self._admin.list_topics(timeout=30).topics)
        except KafkaException as error:
            raise RunError(f"no broker answers at {self._bootstrap}: {error}") from error

    def _remove(self, sink: str) -> None:
        """Delete an output topic and the internal topics of the run that wrote it."""
        topics = [topic for topic in self._topics() if sink in topic]
        for deleted in self._admin.delete_topics(topics).values():
            deleted.result()

    def _broker_pid(self) -> int | None:
        try:
            pid = int((self._work / "broker" / "pid").read_text())
            os.kill(pid, 0)
        except (OSError, ValueError):
            return None
        return pid

    def _command(self, command: list[str]) -> None:
        """Run a command of the harness, which may leave a broker running."""
        log = self._work / "bench-command.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        with open(log, "w") as file:
            # a session of its own: Ctrl-C is not for the broker, which is stopped in the end
            done = subprocess.run(
                command, stdout=file, stderr=file, stdin=subprocess.DEVNULL, timeout=TIMEOUT, start_new_session=True
            )
        if done.returncode != 0:
            text = log.read_text()[-2000:].strip()
            raise RunError(f"{Path(command[0]).name} {' '.join(command[1:])} ended with {done.returncode}:\n{text}")


def _topic(name: str, records: int) -> str:
    """The name of an input topic, as the harness names them: events of 5 million are ``in-events5m``."""
    if _DEFAULT_SIZES.get(name) == records:
        return f"in-{name}"
    if name == "events" and records % 1_000_000 == 0:
        return f"in-{name}{records // 1_000_000}m"
    return f"in-{name}{records // 1_000}k"


def _options(name: str, records: int) -> list[str]:
    """What else the harness has to be told, so that a set of so many records is that of ``bench.data``."""
    span = {"table": 10, "orders": 10, "customers": 50}
    customers = {"orders": 20, "customers": 4}
    options = ["--span", str(span[name] * records)] if name in span else []
    return [*options, "--customers", str(records // customers[name])] if name in customers else options
