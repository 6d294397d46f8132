"""A checkpoint on an S3 server that is slow, fails, or cannot do what commits rely on."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.columns.batch import Batch
from penstock.columns.column import BytesColumn
from penstock.engine.local import LocalApplication
from penstock.engine.shared import exchange
from penstock.errors import ConfigError, StoreError
from penstock.serdes import STR
from penstock.storage.objects import ObjectStorage
from support.s3 import KEYS, S3Server
from support.world import World


def started(world: World, url: str, **limits: Any) -> LocalApplication:
    return world.start(storage=ObjectStorage(url, **limits))


def test_a_store_without_conditional_puts_is_refused_and_nothing_is_left_there(s3: S3Server, tmp_path: Path):
    s3.tell(is_conditional=False)
    world, url = World(tmp_path), s3.bucket()
    world.produce("a")
    with pytest.raises(ConfigError, match=r"knows no conditional puts \(If-None-Match: \*\).*Nothing was started"):
        started(world, url)
    assert world.output() == []
    assert not [name for name in ObjectStorage(url).list("") if name.startswith(("probe", "manifests"))]


def test_a_bucket_that_is_not_there_is_named_as_such(s3: S3Server, tmp_path: Path):
    with pytest.raises(StoreError, match=r"cannot write s3://no-such-bucket/app/.*: its bucket or container is not th"):
        ObjectStorage("s3://no-such-bucket/app").check()


def test_a_store_that_asks_to_slow_down_gets_everything_in_the_end(
    s3: S3Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    world, url = World(tmp_path), s3.bucket()
    world.produce("a", "b", "a")
    application = started(world, url)
    s3.tell(failing=4)
    with caplog.at_level(logging.WARNING):
        application.run_until()
    application.close()
    assert world.output() == [("a", 1), ("b", 1), ("a", 2)]
    assert sum("503 Service Unavailable: ; it is tried again" in message for message in caplog.messages) == 4


def test_a_store_that_gives_nothing_for_a_while_is_asked_again(
    s3: S3Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    world, url = World(tmp_path), s3.bucket()
    for machine in ("one", "another"):
        world.produce("a", "b")
        s3.tell(failing_reads=4)
        application = world.start(storage=ObjectStorage(url), machine=machine)
        application.run_until()
        application.close()
    assert world.output() == [("a", 1), ("b", 1), ("a", 2), ("b", 2)]
    said = [message for message in caplog.messages if "503 Service Unavailable: ; it is tried again" in message]
    assert len(said) == 8


def test_an_answer_that_is_late_is_asked_for_again(s3: S3Server):
    storage = ObjectStorage(url := s3.bucket(), seconds=0.5)
    ref = storage.put("deltas/1", b"one two")
    s3.tell(late_reads=1, seconds=2.0)
    assert bytes(storage.read_verified(ref)) == b"one two"
    s3.tell(late_reads=1)
    assert ObjectStorage(url, seconds=0.5).list("deltas") == ["deltas/1"]


def test_a_file_whose_creation_is_not_confirmed_in_time_is_known_as_ones_own(s3: S3Server):
    url = s3.bucket()
    hasty = ObjectStorage(url, seconds=0.5)
    s3.tell(late=1, seconds=2.0)
    assert hasty.create("manifests/1.json", b"ours")
    s3.tell(late=0)
    assert not ObjectStorage(url).create("manifests/1.json", b"theirs")
    assert bytes(ObjectStorage(url).read("manifests/1.json")) == b"ours"


def test_a_file_that_a_rival_created_while_an_answer_was_lost_is_not_ones_own(s3: S3Server):
    url = s3.bucket()
    assert ObjectStorage(url).create("manifests/1.json", b"theirs")
    s3.tell(failing=1)
    assert not ObjectStorage(url).create("manifests/1.json", b"ours")


def test_a_store_that_does_not_answer_is_given_up_after_a_while_without_telling_keys(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    with S3Server() as server:
        server.be_found(monkeypatch)
        storage = ObjectStorage(server.bucket(), patience=0.5)
    with pytest.raises(
        StoreError, match=r"cannot write s3://bucket-.*/app/a: .*everything committed before is safe"
    ) as e:
        storage.create("a", b"")
    assert not any(key in text for key in KEYS.values() if key != "us-east-1" for text in (str(e.value), caplog.text))


def test_a_file_is_put_in_one_request_so_a_killed_process_leaves_no_unfinished_upload(s3: S3Server):
    storage = ObjectStorage(url := s3.bucket())
    with storage.write("snapshots/0_0/large") as file:
        file.write(bytes(12 << 20))
    assert s3.parts(url, "snapshots/0_0/large") == 1


def test_requests_and_bytes_are_counted_and_a_file_just_written_is_not_read_again(s3: S3Server):
    storage = ObjectStorage(s3.bucket())
    with storage.write("a") as file:
        file.write(b"12345")
    assert storage.ref("a").size == 5
    assert storage.take_counts() == {"object-store-requests-total": 1, "object-store-written-bytes-total": 5}
    storage.read("a")
    storage.list("")
    assert storage.take_counts() == {"object-store-requests-total": 2, "object-store-read-bytes-total": 5}
    assert storage.take_counts() == {}


def test_of_a_large_file_of_a_repartition_topic_a_task_reads_what_is_for_its_partition(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(exchange, "_TOGETHER_BYTES", 0)
    storage = ObjectStorage(s3.bucket())
    with exchange.ExchangeWriter(storage, "exchange/1.arrow", "0_0") as writer:
        for partition in (0, 1, 0, 2):
            values = BytesColumn(STR.encode_all([f"of {partition}"] * 1000), STR)
            clock = np.arange(1000)
            writer.write(partition, Batch(values, values, clock, (clock,)), clock, None)
    refs = writer.refs()
    assert [(ref.partition, ref.records) for ref in refs] == [(0, 2000), (1, 1000), (2, 1000)]
    storage.take_counts()
    [one, two] = exchange.read_exchange(storage, refs[:1])
    assert STR.decode_all(one.value) == STR.decode_all(two.value) == ["of 0"] * 1000
    read = {"object-store-requests-total": 1, "object-store-read-bytes-total": refs[0].file.size}
    assert storage.take_counts() == read


def test_what_an_application_asked_of_the_store_is_in_its_figures(s3: S3Server, tmp_path: Path):
    world = World(tmp_path)
    world.produce("a")
    application = started(world, s3.bucket())
    application.run_until()
    application.close()
    manifest = application.coordinator.manifest
    assert manifest.observed["0_0|||object-store-requests-total"] > 5
    assert manifest.observed["0_0|||object-store-written-bytes-total"] > 0
    assert not any("object-store" in name for name in manifest.metrics)


def test_keys_of_a_profile_are_read_where_the_stores_tools_keep_them(
    s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    url = s3.bucket()
    lines = ["[work]", f"aws_access_key_id={KEYS['AWS_ACCESS_KEY_ID']}", f"aws_secret_access_key={'x' * 8}"]
    (tmp_path / "credentials").write_text("\n".join(lines))
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_PROFILE", "work")
    assert ObjectStorage(url).create("a", b"1")
