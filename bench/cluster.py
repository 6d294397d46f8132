"""A broker on this machine with the records of the benchmark, as the peers' harness makes it.

Everything the harness needs comes from its own environment variables (``BENCH_WORK``, ``BENCH_CP_FILE``, ...).
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bench import data
from bench.measure import RunError, process_cpu
from bench.workloads import Inputs

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


class Cluster:
    """The harness's broker.

    Args:
        harness: its folder, with ``broker.sh`` and ``gen.py``.

    Raises:
        RunError: something that the harness needs is missing; the message says what.
    """

    def __init__(self, harness: Path):
        self.harness = harness.resolve()
        missing = [name for name in ("BENCH_WORK", "BENCH_CP_FILE") if not os.environ.get(name)]
        if missing:
            raise RunError(f"set {' and '.join(missing)} as {harness}/README.md says")
        self.work = Path(os.environ["BENCH_WORK"]).resolve()
        self.bootstrap = os.environ.get("BENCH_BOOTSTRAP", "127.0.0.1:39092")
        self._admin: Any = None

    def start_broker(self) -> bool:
        """Start the harness's broker if it is not running; whether it was started."""
        if self._broker_pid() is not None:
            return False
        self.command([str(self.harness / "broker.sh"), "start"])
        return True

    def stop_broker(self) -> None:
        self.command([str(self.harness / "broker.sh"), "stop"])

    def connect(self) -> None:
        """Connect to the broker, which runs."""
        self._admin = AdminClient({"bootstrap.servers": self.bootstrap})
        self._topics()

    @property
    def cpu(self) -> float:
        """CPU seconds that the broker has used."""
        return process_cpu(self._broker_pid() or -1)

    def sources(self, inputs: Inputs) -> list[str]:
        """The topics with these inputs, made when they are not there."""
        return [self.loaded(name, count) for name, count in inputs.items()]

    def sink(self) -> str:
        """A new output topic; its name."""
        name = f"out-bench-{uuid.uuid4().hex[:8]}"
        self.make(name)
        return name

    def make(self, name: str) -> None:
        self._admin.create_topics([NewTopic(name, data.PARTITIONS, 1, config={"retention.ms": "-1"})])[name].result()

    def loaded(self, name: str, count: int) -> str:
        """The topic with a set of so many records, made when it is not there; its name."""
        topic = _topic(name, count)
        if self._records(topic) != count:
            if name in _OWN_SETS:
                self.fill(topic, data.SETS[name](count))
            else:
                python = os.environ.get("BENCH_PY", sys.executable)
                arguments = ["--set", name, "--n", str(count), "--bootstrap", self.bootstrap, "--topic", topic]
                self.command([python, str(self.harness / "gen.py"), *arguments, *_options(name, count)])
            if self._records(topic) != count:
                raise RunError(f"topic {topic} holds {self._records(topic)} records after loading, not {count}")
        return topic

    def fill(self, topic: str, columns: data.Columns) -> None:
        """Write a set that the harness does not know into a topic, which is made anew."""
        if topic in self._topics():
            self._admin.delete_topics([topic])[topic].result()
            time.sleep(2)
        self.make(topic)
        self.produce(topic, columns)

    def produce(self, topic: str, columns: data.Columns) -> None:
        """Write records behind those of a topic."""
        settings = {"bootstrap.servers": self.bootstrap, "partitioner": "murmur2_random", "linger.ms": 50}
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

    def read(self, topic: str, partition: int) -> tuple[Any, Any]:
        """Keys and values of a partition."""
        keys: list[bytes] = []
        values: list[bytes] = []
        for message in self.messages(topic, partition):
            keys.append(message.key())
            values.append(message.value())
        return pa.array(keys, pa.binary()), pa.array(values, pa.binary())

    def messages(self, topic: str, partition: int) -> Iterator[Any]:
        """The messages of a partition, as a reader of committed records sees them."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": f"bench-{uuid.uuid4().hex}",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
                "fetch.message.max.bytes": 8 << 20,
            }
        )
        consumer.assign([TopicPartition(topic, partition, 0)])
        deadline = time.monotonic() + TIMEOUT
        try:
            while time.monotonic() < deadline:
                for message in consumer.consume(20_000, 1.0):
                    error = message.error()
                    if error and error.code() == KafkaError._PARTITION_EOF:
                        return
                    if error:
                        raise RunError(f"reading {topic} failed: {error}")
                    yield message
        finally:
            consumer.close()
        raise RunError(f"reading {topic} took more than {TIMEOUT} s")

    def _records(self, topic: str) -> int:
        """How many records a topic holds; 0 when it is not there."""
        if topic not in self._topics():
            return 0
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "bench-size"})
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
            raise RunError(f"no broker answers at {self.bootstrap}: {error}") from error

    def remove(self, sink: str) -> None:
        """Delete an output topic and the internal topics of the run that wrote it."""
        topics = [topic for topic in self._topics() if sink in topic]
        for deleted in self._admin.delete_topics(topics).values():
            deleted.result()

    def _broker_pid(self) -> int | None:
        try:
            pid = int((self.work / "broker" / "pid").read_text())
            os.kill(pid, 0)
        except (OSError, ValueError):
            return None
        return pid

    def command(self, command: list[str]) -> None:
        """Run a command of the harness, which may leave a broker running."""
        log = self.work / "bench-command.log"
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
