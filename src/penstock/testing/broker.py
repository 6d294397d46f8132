"""A Kafka broker on this machine, for tests and experiments: one node, plain Java, no container.

``python -m penstock.testing.broker`` runs one until Ctrl-C. The first time Maven downloads Kafka's own files, a hundred
megabytes, into its usual folder. The broker listens on localhost only, and its folder is removed with it.
"""

from __future__ import annotations

import argparse
import base64
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from fcntl import LOCK_EX, flock
from pathlib import Path
from types import FrameType

from penstock.errors import ConfigError
from penstock.files import locations
from penstock.storage.base import checksum

POM = Path(__file__).with_name("broker.xml")
_READY_SECONDS = 120.0
_RESOLVE_SECONDS = 300
_HEAP = "-Xmx384m"
_JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
"""A broker for a few small topics starts with a third of the work of a long-lived one."""

_PROPERTIES = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "2",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    "log.retention.ms": "-1",
    "log.cleaner.dedupe.buffer.size": str(4 << 20),
    "num.network.threads": "2",
    "num.io.threads": "2",
    "background.threads": "2",
}


class Broker:
    """A broker in a folder, on a free port; as a context it starts and stops.

    Args:
        folder: where its topics are; a broker started in the same folder again has the same topics and port.
        properties: Kafka's own properties, in addition to those that one node needs.
        listeners: more listeners by name, each with its protocol, such as ``{"SECURE": "SASL_SSL"}``.
        port: the port for clients; 0 takes a free one.

    Raises:
        ConfigError: Java or Maven is missing, or Maven cannot download Kafka.
    """

    def __init__(
        self,
        folder: Path,
        properties: Mapping[str, str] | None = None,
        listeners: Mapping[str, str] | None = None,
        port: int = 0,
    ):
        self.folder = locations.folder(folder, "folder")
        self._java = _found("java", "Java 17 or newer")
        self._class_path = class_path()
        self._listeners = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT", **(listeners or {})}
        self.ports = dict(zip(self._listeners, free_ports(len(self._listeners)), strict=True))
        self.ports["PLAINTEXT"] = port or self.ports["PLAINTEXT"]
        self._properties = {**_PROPERTIES, **self._places(), **(properties or {})}
        self._process: subprocess.Popen[bytes] | None = None

    def _places(self) -> dict[str, str]:
        where = {name: f"{name}://127.0.0.1:{port}" for name, port in self.ports.items()}
        return {
            "listeners": ",".join(where.values()),
            "advertised.listeners": ",".join(url for name, url in where.items() if name != "CONTROLLER"),
            "listener.security.protocol.map": ",".join(f"{name}:{kind}" for name, kind in self._listeners.items()),
            "controller.quorum.voters": f"1@127.0.0.1:{self.ports['CONTROLLER']}",
            "log.dirs": str(self.folder / "data"),
        }

    @property
    def servers(self) -> str:
        """The address for clients."""
        return self.servers_of("PLAINTEXT")

    def servers_of(self, listener: str) -> str:
        """Return the address of one of its listeners for clients."""
        return f"127.0.0.1:{self.ports[listener]}"

    @property
    def url(self) -> str:
        """Its URL as a log: ``kafka://...``."""
        return f"kafka://{self.servers}"

    @property
    def pid(self) -> int:
        """The number of its process, while it runs."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it, and wait until it answers."""
        properties = self.folder / "server.properties"
        if not properties.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            properties.write_text("".join(f"{name}={value}\n" for name, value in self._properties.items()))
            own_id = base64.urlsafe_b64encode(os.urandom(16)).rstrip(b"=").decode().replace("-", "A")
            self._run("kafka.tools.StorageTool", "format", "-t", own_id, "-c", str(properties)).wait()
        self._process = self._run("kafka.Kafka", str(properties))
        (self.folder / "pid").write_text(str(self.pid))
        self._wait(time.monotonic() + _READY_SECONDS)

    def stop(self) -> None:
        """Stop it, if it runs; its topics stay in its folder."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Kill it, as in a crash."""
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    def __enter__(self) -> Broker:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    @property
    def output(self) -> Path:
        """The file of its output."""
        return self.folder / "broker.log"

    def _run(self, *command: str) -> subprocess.Popen[bytes]:
        with open(self.output, "ab") as output:
            return subprocess.Popen(
                [self._java, _HEAP, *_JVM, "-cp", self._class_path, *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C goes to its starter, which stops it
            )

    def _wait(self, until: float) -> None:
        """Wait until it answers; the port alone opens earlier."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        while time.monotonic() < until:
            if self._process is None or self._process.poll() is not None:
                break
            try:
                AdminClient({"bootstrap.servers": self.servers, "log_level": 0}).list_topics(timeout=1)
                return
            except KafkaException:
                time.sleep(0.1)
        self.stop()
        raise ConfigError(f"the broker in {self.folder} did not start: {_last_lines(self.output)}")


def class_path() -> str:
    """Return the class path of the broker, which Maven downloads if necessary.

    Raises:
        ConfigError: Maven is missing, or the download fails.
    """
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "penstock"
    known = folder / f"broker-{checksum(POM.read_bytes()):016x}.classpath"
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / "broker.lock"):
        if not known.exists() or not all(map(os.path.exists, known.read_text().split(os.pathsep))):
            _resolve(known)
        return known.read_text()


def _resolve(known: Path) -> None:
    maven = _found("mvn", "Maven")
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(POM, Path(folder) / "pom.xml")
        found = Path(folder) / "found"
        command = [maven, "-q", "-B", "dependency:build-classpath", f"-Dmdep.outputFile={found}"]
        try:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_RESOLVE_SECONDS)
        except subprocess.TimeoutExpired:
            raise ConfigError(f"Maven did not get Kafka's files within {_RESOLVE_SECONDS} s") from None
        if done.returncode or not found.exists():
            raise ConfigError(f"Maven cannot get Kafka's files: {(done.stdout + done.stderr)[-2000:]}")
        known.write_text(found.read_text().strip())


def _found(program: str, what: str) -> str:
    home = os.environ.get("JAVA_HOME") if program == "java" else None
    path = shutil.which(f"{home}/bin/java" if home else program)
    if path is None:
        raise ConfigError(f"a Kafka broker for tests needs {what}: there is no program {program!r}")
    return path


def free_ports(count: int) -> list[int]:
    """Return free ports of localhost."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock that excludes all other processes with this file."""
    with open(path, "w") as file:
        flock(file, LOCK_EX)
        yield


Extras = tuple[Mapping[str, str], Mapping[str, str]]
"""Properties and listeners of a broker, in addition to those that one node needs."""


def shared(folder: Path, owner: int, extras: Callable[[], Extras] = lambda: ({}, {})) -> dict[str, str]:
    """Return the servers of a broker that several processes share, by listener; the first caller starts it.

    Args:
        folder: the same for all of them.
        owner: the process with which it ends.
        extras: returns more properties and listeners for its start.
    """
    folder.mkdir(parents=True, exist_ok=True)
    ready, output = folder / "servers", folder / "output"
    with locked(folder / "lock"):
        if not ready.exists():
            Broker(folder / "unused")  # raises here if something is missing
            command = [sys.executable, "-m", __name__, "--folder", str(folder / "broker"), "--while", str(owner)]
            for option, pairs in zip(("--property", "--listener"), extras(), strict=True):
                command += [word for name, value in pairs.items() for word in (option, f"{name}={value}")]
            with open(output, "wb") as file:
                process = subprocess.Popen(
                    [*command, "--ready", str(ready)], stdout=file, stderr=file, start_new_session=True
                )
            until = time.monotonic() + _READY_SECONDS
            while not ready.exists() and process.poll() is None and time.monotonic() < until:
                time.sleep(0.05)
            if not ready.exists():
                process.terminate()
                raise ConfigError(f"the shared broker did not start: {_last_lines(output)}")
    return dict(line.split() for line in ready.read_text().splitlines())


def _last_lines(file: Path) -> str:
    return file.read_text(errors="replace")[-2000:] if file.exists() else "it said nothing"


def main() -> None:
    """Run a broker until it is interrupted."""
    parser = argparse.ArgumentParser(prog="python -m penstock.testing.broker", description=main.__doc__)
    parser.add_argument("--folder", type=Path, help="where its topics lie; by default a folder that goes with it")
    parser.add_argument("--port", type=int, default=0, help="where clients find it; by default a free one")
    parser.add_argument("--while", type=int, dest="owner", help="the number of a process with which it ends")
    parser.add_argument("--ready", type=Path, help="a file for its addresses: a line each, with the listener")
    own = "a property of Kafka's own, also several times"
    parser.add_argument("--property", action="append", default=[], metavar="NAME=VALUE", type=_pair, help=own)
    more = "another listener and its protocol, such as SECURE=SASL_SSL, also several times"
    parser.add_argument("--listener", action="append", default=[], metavar="NAME=PROTOCOL", type=_pair, help=more)
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, _interrupt)
    with tempfile.TemporaryDirectory(prefix="penstock-broker-") as own:
        folder = arguments.folder or Path(own)
        with Broker(folder, dict(arguments.property), dict(arguments.listener), arguments.port) as broker:
            print(f"{broker.url}   (Ctrl-C ends it)", flush=True)
            if arguments.ready is not None:
                _written(arguments.ready, "".join(f"{name} {broker.servers_of(name)}\n" for name in broker.ports))
            try:
                _wait_while(arguments.owner, broker)
            except KeyboardInterrupt:
                pass
        if arguments.ready is not None:
            shutil.rmtree(folder, ignore_errors=True)


def _pair(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name, value


def _written(file: Path, text: str) -> None:
    half = file.with_suffix(".half")
    half.write_text(text)
    half.rename(file)


def _interrupt(_: int, __: FrameType | None) -> None:
    raise KeyboardInterrupt


def _wait_while(owner: int | None, broker: Broker) -> None:
    while _is_there(broker.pid) and (owner is None or _is_there(owner)):
        time.sleep(0.5)


def _is_there(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


if __name__ == "__main__":
    main()
