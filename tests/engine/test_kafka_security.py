"""Applications over a Kafka broker that wants passwords or certificates, and says what each user may."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from penstock import Kafka, StreamsBuilder, produce
from penstock.cli.main import main
from penstock.engine.local import LocalApplication
from penstock.errors import LogError, PenstockError
from penstock.log.kafka.log import KafkaLog
from penstock.log.open import open_log
from penstock.settings import Settings
from penstock.storage.base import LocalStorage
from support import secure
from support.kafka import Cluster

pytest.importorskip("cryptography", reason="certificates for a broker are made with cryptography")

Options = dict[str, str]


class Secured(Cluster):
    """The broker as one that is to be let in sees it.

    Args:
        listeners: where it listens.
        folder: where secrets may be put.
    """

    def __init__(self, listeners: dict[str, str], folder: Path, certificates: Path):
        super().__init__(listeners["PLAINTEXT"])
        self.listeners = listeners
        self.certificates = certificates
        self.password = folder / "password"
        self.password.write_text(f"{secure.PASSWORD}\n")
        self.input, self.output = self.topic("in"), self.topic("out")

    def let_in(self, *grants: tuple[str, str]) -> None:
        """Grant the user rights on what bears the test's name."""
        secure.grant(self.admin, *((kind, self.name, operation) for kind, operation in grants))

    def sasl(self, mechanism: str, **others: str) -> Options:
        own = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism}
        if mechanism == "OAUTHBEARER":
            own |= {
                "enable.sasl.oauthbearer.unsecure.jwt": "true",
                "sasl.oauthbearer.config": f"principal={secure.USER}",
            }
        else:
            own |= {"sasl.username": secure.USER, "sasl.password": f"file:{self.password}"}
        return own | others

    def tls(self, authority: str = "ca", user: str = "") -> Options:
        own = {"security.protocol": "SSL", "ssl.ca.location": str(self.certificates / f"{authority}.pem")}
        if user:
            own |= {
                "ssl.certificate.location": str(self.certificates / f"{user}.crt"),
                "ssl.key.location": str(self.certificates / f"{user}.key"),
                "ssl.key.password": "env:KEY_PASSWORD",
            }
        return own

    def over(self, listener: str, options: Options, timeout: str = "60 seconds") -> KafkaLog:
        """The log as a program opens it that comes over a listener."""
        return open_log(Kafka(self.listeners[listener], options, timeout))

    def application(self, log: KafkaLog, folder: Path) -> LocalApplication:
        builder = StreamsBuilder()
        counts = builder.stream(self.input, value=int).group_by_key().count("counts")
        counts.to_stream().map_values(str, value=str).to(self.output)
        settings = Settings.load(environment={}, folder=folder, statestore_cache_max_bytes=0)
        return LocalApplication(builder.build(), self.name, settings, log, LocalStorage(folder / "checkpoint"))

    def fill(self) -> None:
        produce([("a", 1, 5), ("b", 1, 6), ("a", 1, 7)], self.input, key=str, value=int, log=self.log)

    def results(self) -> list[tuple[Any, ...]]:
        return self.rows(self.output, key=str, value=str)


RESULTS = [("a", "1", 5), ("b", "1", 6), ("a", "2", 7)]
EVERYTHING = [
    ("TOPIC", "READ"),
    ("TOPIC", "WRITE"),
    ("TOPIC", "DESCRIBE_CONFIGS"),
    ("GROUP", "READ"),
    ("TRANSACTIONAL_ID", "WRITE"),
]


@pytest.fixture
def cluster(
    kafka_listeners: dict[str, str], kafka_certificates: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Secured]:
    if "SASL" not in kafka_listeners:
        pytest.skip("certificates could not be made when the broker was started")
    monkeypatch.setenv("KEY_PASSWORD", secure.KEY_PASSWORD)
    (tmp_path / "secrets").mkdir()
    found = Secured(kafka_listeners, tmp_path / "secrets", kafka_certificates)
    yield found
    found.close()


WAYS: dict[str, tuple[str, Callable[[Secured], Options]]] = {
    "PLAIN": ("SASL", lambda cluster: cluster.sasl("PLAIN")),
    "SCRAM-SHA-512": ("SASL", lambda cluster: cluster.sasl("SCRAM-SHA-512")),
    "OAUTHBEARER": ("SASL", lambda cluster: cluster.sasl("OAUTHBEARER")),
    "TLS": ("TLS", lambda cluster: cluster.tls()),
    "mutual TLS": ("MUTUAL", lambda cluster: cluster.tls(user=secure.USER)),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_program_that_is_known_reads_and_writes(cluster: Secured, tmp_path: Path, way: str):
    secure.make_user(cluster.admin)
    cluster.let_in(*EVERYTHING)
    cluster.fill()
    listener, options = WAYS[way]
    application = cluster.application(cluster.over(listener, options(cluster)), tmp_path)
    application.run_until()
    assert cluster.results() == RESULTS


REFUSED: dict[str, tuple[str, Callable[[Secured], Options], str]] = {
    "wrong password": (
        "SASL",
        lambda cluster: cluster.sasl("PLAIN", **{"sasl.password": "wrong-4711"}),
        "Invalid username or password",
    ),
    "wrong password, SCRAM": (
        "SASL",
        lambda cluster: cluster.sasl("SCRAM-SHA-256", **{"sasl.password": "wrong-4711"}),
        "invalid credentials with SASL mechanism SCRAM-SHA-256",
    ),
    "no such mechanism": (
        "SASL",
        lambda cluster: cluster.sasl("PLAIN", **{"sasl.username": "nobody"}),
        "Invalid username or password",
    ),
    "unknown authority": ("TLS", lambda cluster: cluster.tls("other-ca"), "certificate verify failed"),
    "expired certificate of the broker": ("EXPIRED", lambda cluster: cluster.tls(), "certificate verify failed"),
    "expired certificate of the user": (
        "MUTUAL",
        lambda cluster: cluster.tls(user=f"{secure.USER}-expired"),
        "SSL alert number",
    ),
    "no certificate": ("MUTUAL", lambda cluster: cluster.tls(), "SSL alert number"),
}


def test_whoever_is_not_let_in_is_told_why_in_seconds_and_nothing_is_made(cluster: Secured, tmp_path: Path):
    def refusal(name: str) -> str:
        listener, options, _ = REFUSED[name]
        folder = tmp_path / name
        with pytest.raises(LogError) as error:
            cluster.application(cluster.over(listener, options(cluster), "9 minutes"), folder)
        assert not (folder / "checkpoint/commits").exists()
        return str(error.value)

    with ThreadPoolExecutor(len(REFUSED)) as pool:
        said = dict(zip(REFUSED, pool.map(refusal, REFUSED), strict=True))
    for name, text in said.items():
        assert "does not let this user in (librdkafka:" in text, name
        assert REFUSED[name][2] in text, name
        assert "Nothing was written, and everything committed is safe; look at the options" in text, name
        assert not [secret for secret in (*secure.SECRETS, "wrong-4711") if secret in text], name


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        (("TOPIC", "READ"), "may not"),
        (("TOPIC", "WRITE"), "may not write into it; nothing was written. Grant it WRITE on the topic"),
        (("GROUP", "READ"), "may not use the consumer group that bears the application id"),
        (("TRANSACTIONAL_ID", "WRITE"), "may not use the transactional id of this application"),
    ],
    ids=["read", "write", "group", "transactional id"],
)
def test_a_right_that_is_missing_is_named_before_anything_is_committed(
    cluster: Secured, tmp_path: Path, missing: tuple[str, str], said: str
):
    cluster.let_in(("TOPIC", "DESCRIBE"), *(one for one in EVERYTHING if one != missing))
    cluster.fill()
    log = cluster.over("SASL", cluster.sasl("PLAIN"))
    with pytest.raises(PenstockError, match=said):
        cluster.application(log, tmp_path).run_until()
    assert (cluster.results(), cluster.group()) == ([], {})

    cluster.let_in(missing)
    cluster.application(cluster.over("SASL", cluster.sasl("PLAIN")), tmp_path).run_until()
    assert cluster.results() == RESULTS


def test_no_secret_is_in_anything_that_is_written_or_shown(
    cluster: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.DEBUG)
    cluster.let_in(*EVERYTHING)
    cluster.fill()
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setenv("PENSTOCK_KAFKA_SASL_PASSWORD", secure.PASSWORD)
    password = (
        f"security.protocol=SASL_PLAINTEXT&sasl.mechanism=PLAIN&sasl.username=app&sasl.password={secure.PASSWORD}"
    )
    url = f"kafka://{cluster.listeners['SASL']}?{password}"
    (tmp_path / "penstock.toml").write_text(f"log = {json.dumps(url)}\n")
    log = open_log(url)
    application = cluster.application(log, work)
    application.run_until()
    application.close()
    mutual = cluster.over("MUTUAL", cluster.tls(user=secure.USER))
    assert mutual.exists(cluster.input)

    configs = [
        CliRunner().invoke(main, ["config", "--config", str(tmp_path / "penstock.toml"), *more]).output
        for more in ([], ["--json"])
    ]
    assert "kafka://127.0.0.1" in configs[0]
    shown = [
        *configs,
        repr(log.place),
        log.url,
        repr(mutual.place),
        application.coordinator.topology.describe(),
        caplog.text,
    ]
    written = [one.read_bytes() for one in work.rglob("*") if one.is_file()]
    assert len(written) > 5
    for secret in secure.SECRETS:
        assert not [text for text in shown if secret in text]
        assert not [data for data in written if secret.encode() in data]
