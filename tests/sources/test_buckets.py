"""Files that appear in a bucket of an object store."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock import ConfigError, SourceError, consume
from penstock.sources import FileSource
from support.sourcing import TOPIC, brought_in, running, until


def put(url: str, name: str, data: bytes) -> None:
    from penstock.storage.objects import ObjectStorage

    ObjectStorage(url).put(name, data)


def lines(*numbers: int) -> bytes:
    return b"".join(json.dumps({"id": n}).encode() + b"\n" for n in numbers)


def ids(folder: Path) -> list[int]:
    return sorted(one.value["id"] for one in consume(TOPIC, key=int, value=dict, log=folder / "log"))


def test_files_of_a_bucket_come_in_once(s3: Any, tmp_path: Path):
    url = s3.bucket()
    put(url, "2026/a.jsonl", lines(1, 2))
    put(url, "_penstock/b.jsonl", lines(9))
    with pa.BufferOutputStream() as out:
        pq.write_table(pa.table({"id": [3, 4]}), out)
        put(url, "c.parquet", out.getvalue().to_pybytes())
    source = FileSource(f"{url}/", key="id")
    assert (source.poll_ms, source.shown) == (10_000, f"files in {url}/")
    brought_in(tmp_path, source, key=int, value=dict)
    put(url, "d.csv", b"id\n5\n")
    brought_in(tmp_path, FileSource(url, key="id"), key=int, value=dict)
    records = [(one.key, one.value) for one in consume(TOPIC, key=int, value=dict, log=tmp_path / "log")]
    assert sorted(records[:4]) == [(n, {"id": n}) for n in (1, 2, 3, 4)]
    assert records[4:] == [(5, {"id": "5"})]


def test_a_store_that_fails_for_a_while_is_asked_again(s3: Any, tmp_path: Path):
    url = s3.bucket()
    put(url, "a.jsonl", lines(1))
    s3.tell(failing_reads=3)
    brought_in(tmp_path, FileSource(url, key="id"), key=int, value=dict, retry_for="1 minute")
    assert ids(tmp_path) == [1]


def test_a_bucket_that_is_not_there_ends_the_program_without_its_keys(s3: Any, tmp_path: Path):
    source = FileSource("s3://no-such-bucket/app?secret_access_key=abc", every="10 ms")
    assert source.shown == "files in s3://no-such-bucket/app?secret_access_key=****"
    with running(tmp_path, source, value=dict, retry_for="200 ms") as sources:
        with pytest.raises(SourceError) as caught:
            sources.process_sources()
        until(lambda: sources.now()[0].state == "failed")
    assert "abc" not in str(caught.value)
    assert "the store did not answer" in str(caught.value)


def test_a_url_that_is_none_is_refused_without_its_keys():
    with pytest.raises(ConfigError) as caught:
        FileSource("s3://key:secret@")
    assert "secret" not in str(caught.value)
