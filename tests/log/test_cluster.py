"""How a Kafka cluster is named, and that what is secret of it stays so."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from penstock import Kafka
from penstock.errors import ConfigError
from penstock.log.file.log import FileLog
from penstock.log.open import open_log
from penstock.settings import Settings


def test_a_cluster_is_named_with_or_without_scheme_and_options():
    for servers in ("a:9092,b:9092", "kafka://a:9092,b:9092", "kafka://a:9092,b:9092/"):
        assert (Kafka(servers).servers, Kafka(servers).url) == ("a:9092,b:9092", "kafka://a:9092,b:9092")
    found = Kafka("kafka://a:9092?security.protocol=SASL_SSL&fetch.min.bytes=5", {"check.crcs": True})
    assert found.options({}) == {"security.protocol": "SASL_SSL", "fetch.min.bytes": "5", "check.crcs": "true"}


def test_secrets_come_from_variables_and_files_when_they_are_needed(tmp_path: Path):
    (tmp_path / "password").write_text("from a file\n")
    options = {"sasl.password": f"file:{tmp_path}/password", "sasl.username": "env:USER_OF_KAFKA"}
    cluster = pickle.loads(pickle.dumps(Kafka("a:9092", options)))
    environment = {"USER_OF_KAFKA": "me", "PENSTOCK_KAFKA_SSL_CA_LOCATION": "/ca", "PENSTOCK_ON_ERROR": "skip"}

    assert cluster.options(environment) == {
        "sasl.password": "from a file",
        "sasl.username": "me",
        "ssl.ca.location": "/ca",
    }
    with pytest.raises(ConfigError, match=r"sasl\.username comes from the variable USER_OF_KAFKA, which is not set"):
        cluster.options({})
    (tmp_path / "password").unlink()
    with pytest.raises(ConfigError, match=r"sasl\.password comes from the file .*: No such file"):
        cluster.options(environment)


def test_what_is_shown_of_a_cluster_has_no_secrets():
    secrets = {"sasl.password": "hush", "ssl.key.password": "hush", "sasl.oauthbearer.client.secret": "hush"}
    cluster = Kafka("a:9092", {**secrets, "sasl.username": "me"})
    assert "hush" not in f"{cluster!r} {cluster} {cluster.url}"
    assert "me" in repr(cluster)


@pytest.mark.parametrize("servers", ["", "kafka://", "user:secret@a:9092", "a:9092/topic"])
def test_servers_that_are_none_are_refused_without_being_shown(servers: str):
    with pytest.raises(ConfigError, match="write them like 'host:9092,other:9092'") as error:
        Kafka(servers)
    assert "secret" not in str(error.value)


@pytest.mark.parametrize("servers", ["a:port", "a:", "a:9092,b:90920", "kafka://a:-1", "[::1]:x", "a:0", "a:٩"])
def test_a_port_that_is_none_is_refused_at_once(servers: str):
    with pytest.raises(ConfigError, match=r"Kafka\(servers\): '.*' is no port; write them like 'host:9092,other:9092'"):
        Kafka(servers)


@pytest.mark.parametrize("servers", ["a", "a,b:9093", "[::1]:9092", "::1", "kafka://a:9092"])
def test_a_port_may_be_left_out(servers: str):
    assert Kafka(servers).servers == servers.removeprefix("kafka://")


@pytest.mark.parametrize("name", ["transactional.id", "isolation.level", "enable.idempotence", "group.id"])
def test_options_on_which_exactly_once_rests_are_refused(name: str):
    with pytest.raises(ConfigError, match=f"the Kafka option {name} is not to be chosen"):
        Kafka("a:9092", {name: "x"})


def test_the_settings_say_which_log_is_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert isinstance(open_log(), FileLog)
    (tmp_path / "penstock.toml").write_text('log = "kafka://a:9092?sasl.password=hush"')
    assert open_log().url == "kafka://a:9092"
    assert "hush" not in repr(Settings.load())
    monkeypatch.setenv("PENSTOCK_LOG", "elsewhere")
    assert open_log().url == "elsewhere"
