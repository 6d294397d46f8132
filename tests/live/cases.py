"""Cases of the oracle on a broker, by hand: python tests/live/cases.py --count 60

Kafka Streams, the real one, and Penstock read the same topics of one Kafka broker, and what they write has to be the
same: keys and values by their bytes, timestamps and headers, of each topic, of each key in order. Kafka Streams runs in
one JVM, ``tests/oracle/java``; Penstock in this process, with commits and chunks cut small.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from penstock.engine.local import LocalApplication
from penstock.errors import PenstockError
from penstock.log.base import TopicInfo
from penstock.log.cluster import Kafka
from penstock.log.consume import consume
from penstock.log.kafka.log import KafkaLog
from penstock.settings import Settings
from penstock.storage.base import LocalStorage
from penstock.testing.broker import Broker
from penstock.testing.oracle import driver
from penstock.testing.oracle.build import Build
from penstock.testing.oracle.decisions import Decisions
from penstock.testing.oracle.driver import settings_of
from penstock.testing.oracle.outcome import differences

JAVA = Path(__file__).parent.parent / "oracle" / "java"
CASES = JAVA.parent / "cases"
_TOGETHER = 10
"""So many cases run in Kafka Streams at the same time."""
_SOURCES = ("stream", "table", "global_table", "add_source")
_SINKS = ("to", "add_sink")

Spec = dict[str, Any]


def is_live(case: Spec) -> bool:
    """Whether a case means the same on a broker: no clock that is set by hand, no reads, no errors."""
    steps = case["topology"]
    read, written = _topics(steps, _SOURCES), _topics(steps, _SINKS)
    given = {entry.get("topic") for entry in case["input"]}
    return "error" not in case["expected"] and None not in given and bool(written) and not (read & written)


def is_settled(case: Spec) -> bool:
    """Whether Kafka Streams itself writes the same each time: no task reads topics between which it has a choice.

    It has one where records of several topics have the same time, and where one of them is written by other tasks
    meanwhile, as in foreign-key joins and behind repartition topics.
    """
    topology = Build(case).topology()
    outside = set(topology.source_topics)
    times = [(entry["timestamp"], entry["topic"]) for entry in case["input"]]
    for sub in topology.sub_topologies:
        topics = {*sub.source_topics, *sub.global_topics}
        own = [time for time, topic in set(times) if topic in topics]
        if len(topics) > 1 and (not topics <= outside or sub.global_topics or len(own) > len(set(own))):
            return False
    return True


def is_decided(case: Spec) -> bool:
    """Whether Penstock differs by a decision, as ``differences.json`` says."""
    outcome = driver.run(case)
    return bool(differences(case, outcome)) and not Decisions.beside(CASES).differences(case, outcome)


def _topics(steps: list[Spec], kinds: tuple[str, ...]) -> set[str]:
    return {step["topic"] for step in steps if step["op"] in kinds}


def renamed(case: Spec, name: str, who: str) -> Spec:
    """A case with topics of its own: inputs that both read, and outputs of one of them."""

    def step_of(step: Spec) -> Spec:
        if "topic" not in step:
            return step
        return step | {"topic": f"{name}-{who if step['op'] in _SINKS else 'in'}-{step['topic']}"}

    entries = [entry | {"topic": f"{name}-in-{entry['topic']}"} for entry in case["input"]]
    return case | {"name": f"{name}-{who}", "topology": [step_of(step) for step in case["topology"]], "input": entries}


def class_path(folder: Path) -> str:
    """Kafka Streams and the program, compiled."""
    found = folder / "classpath"
    command = ["mvn", "-q", "-B", f"-Doracle.build={folder}/build", "compile", "dependency:build-classpath"]
    subprocess.run([*command, f"-Dmdep.outputFile={found}"], cwd=JAVA, check=True)
    return f"{folder}/build/classes{os.pathsep}{found.read_text().strip()}"


def kafka_streams(cases: list[Spec], servers: str, libraries: str, folder: Path) -> dict[str, str]:
    """Run cases in Kafka Streams; what went wrong in each."""
    command = ["java", "-Xmx1g", "-cp", libraries, "Live", servers, str(folder)]
    done = subprocess.run(command, input=json.dumps(cases), capture_output=True, text=True, timeout=280, check=False)
    said = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if len(said) < len(cases):
        raise RuntimeError(f"Kafka Streams ended early: {done.stderr[-3000:]}")
    return {one["name"]: one["error"] for one in said}


def penstock(case: Spec, servers: str, folder: Path, rng: random.Random) -> None:
    """Run a case in Penstock, in small commits."""
    sizes = {"commit_max_bytes": rng.choice([200, 2_000, 1 << 20]), "chunk_records": rng.choice([1, 7, 1_000])}
    given = settings_of(case) | {"emit_interval_ms": 0, "application_id": case["name"]}
    application_id = given.pop("application_id")
    settings = Settings.load(environment={}, folder=folder, **given, **sizes)
    log, storage = KafkaLog(Kafka(servers)), LocalStorage(folder / "checkpoint")
    application = LocalApplication(Build(case).topology(), application_id, settings, log, storage, folder / "tasks")
    application.run_until()
    application.close()
    log.close()


def outputs(case: Spec, name: str, who: str, servers: str) -> dict[str, dict[Any, list[Any]]]:
    """Of each output topic, and each key, what was written, in order."""
    found: dict[str, dict[Any, list[Any]]] = {}
    for topic in sorted(_topics(case["topology"], _SINKS)):
        for record in consume(f"{name}-{who}-{topic}", log=Kafka(servers)):
            row = record.value, max(record.timestamp, 1), record.headers
            found.setdefault(topic, {}).setdefault(record.key, []).append(row)
    return found


def difference(ours: dict[str, dict[Any, list[Any]]], theirs: dict[str, dict[Any, list[Any]]]) -> str:
    """Where they differ first."""
    for topic in sorted(ours.keys() | theirs.keys()):
        one, other = ours.get(topic, {}), theirs.get(topic, {})
        for key in sorted(one.keys() | other.keys(), key=repr):
            if one.get(key) != other.get(key):
                return f"topic {topic}, key {key!r}: Penstock {one.get(key)}, Kafka Streams {other.get(key)}"
    return ""


def compared(
    cases: list[Spec], servers: str, libraries: str, folder: Path, rng: random.Random
) -> Iterator[tuple[str, int, str]]:
    """For each case its name, how many records both wrote, and where they differ."""
    log = KafkaLog(Kafka(servers))
    mark = os.urandom(3).hex()
    names = {case["name"]: f"{mark}-{number}" for number, case in enumerate(cases)}
    for case in cases:
        name = names[case["name"]]
        for topic in _topics(case["topology"], _SOURCES):
            log.create_topic(TopicInfo(f"{name}-in-{topic}", 1))
        for topic in _topics(case["topology"], _SINKS):
            for who in ("java", "penstock"):
                log.create_topic(TopicInfo(f"{name}-{who}-{topic}", 1))
    said = kafka_streams([renamed(case, names[case["name"]], "java") for case in cases], servers, libraries, folder)
    for case in cases:
        name = names[case["name"]]
        if (error := said[f"{name}-java"]) != "null":
            yield case["name"], 0, f"Kafka Streams: {error}"
            continue
        own = folder / f"{name}-penstock"
        own.mkdir()
        try:
            penstock(renamed(case, name, "penstock"), servers, own, rng)
        except PenstockError as error:
            yield case["name"], 0, f"Penstock: {error}"
            continue
        theirs = outputs(case, name, "java", servers)
        count = sum(len(rows) for topic in theirs.values() for rows in topic.values())
        yield case["name"], count, difference(outputs(case, name, "penstock", servers), theirs)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--skip", type=int, default=0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--races", action="store_true", help="those in which Kafka Streams itself has a choice")
    parser.add_argument("names", nargs="*", help="cases, by default random ones")
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    rng = random.Random(given.seed)
    every = [json.loads(file.read_text()) for file in sorted(CASES.glob("*.json"))]
    if given.names:
        live = [case for case in every if case["name"] in given.names]
    else:
        live = [case for case in every if is_live(case) and is_settled(case) != given.races]
    rng.shuffle(live)
    chosen = live[given.skip : given.skip + given.count]
    differ, decided, records = 0, 0, 0
    with tempfile.TemporaryDirectory() as folder, Broker(Path(folder) / "broker") as broker:
        libraries = class_path(Path(folder))
        for first in range(0, len(chosen), _TOGETHER):
            some = chosen[first : first + _TOGETHER]
            found = compared(some, broker.servers, libraries, Path(folder), rng)
            for case, (name, count, how) in zip(some, found, strict=True):
                records += count
                if how and is_decided(case):
                    decided += 1
                elif how:
                    differ += 1
                    print(f"DIFFERENT {name}: {how}", flush=True)
    same = len(chosen) - differ - decided
    print(f"{same} of {len(chosen)} cases the same, {decided} others differ by decision; {records} records")
    sys.exit(differ > 0)


if __name__ == "__main__":
    main()
