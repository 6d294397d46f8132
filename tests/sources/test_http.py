"""Requests that are posted to a program: answered when they are in the log, and each once however often it comes."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from penstock import ConfigError, StreamsBuilder, consume
from penstock.engine.sources import feed
from penstock.sources import HttpSource
from penstock.sources.http import inbox
from support.sourcing import TOPIC, running, until

httpx = pytest.importorskip("httpx", reason="comes with penstock-streams[dev]")


def found(folder: Path, value: Any = dict, key: Any = str) -> list[tuple[Any, Any]]:
    return [(one.key, one.value) for one in consume(TOPIC, key=key, value=value, log=folder / "log")]


def post(source: HttpSource, content: Any = None, name: str | None = None, **options: Any) -> Any:
    headers = {**({} if name is None else {"Idempotency-Key": name}), **options.pop("headers", {})}
    given = {"content": content} if isinstance(content, str | bytes) else {"json": content}
    return httpx.request(
        options.pop("method", "POST"), options.pop("url", source.url), headers=headers, timeout=30, **given
    )


@pytest.fixture
def at(tmp_path: Path) -> Any:
    """Run a source in the folder of the test; the source."""
    return lambda source, **options: running(tmp_path, source, **{"value": dict, **options})


def test_a_request_is_answered_when_its_record_is_in_the_log(at: Any, tmp_path: Path):
    source = HttpSource(0, key="who")
    with at(source):
        until(lambda: not source.url.startswith("http://127.0.0.1:0"))
        answer = post(source, {"who": "ann", "n": 1})
        assert found(tmp_path) == [("ann", {"who": "ann", "n": 1})]
        assert (answer.status_code, answer.json()) == (200, {"stored": True, "repeated": False})
        assert post(source, "no json").status_code == 200
    records = consume(TOPIC, key=bytes, value=bytes, log=tmp_path / "log")
    assert [(one.key, one.value) for one in records][1] == (None, b"no json")


def served(source: HttpSource) -> HttpSource:
    """Wait until a source listens."""

    def listens() -> bool:
        try:
            return bool(httpx.get(source.url, timeout=5).status_code)
        except httpx.TransportError:
            return False

    until(listens)
    return source


def test_a_repeated_request_is_one_record_also_after_a_restart(at: Any, tmp_path: Path):
    source = HttpSource(0)
    with at(source):
        served(source)
        assert [post(source, {"n": n}, name).json()["repeated"] for n, name in [(1, "a"), (2, "b"), (1, "a")]] == [
            False,
            False,
            True,
        ]
        post(source, {"n": 3})
        post(source, {"n": 3})
    again = HttpSource(0)
    with at(again):
        served(again)
        assert post(again, {"n": 2}, "b").json() == {"stored": True, "repeated": True}
        assert post(again, {"n": 4}, "c").json() == {"stored": True, "repeated": False}
    assert [row["n"] for _, row in found(tmp_path)] == [1, 2, 3, 3, 4]
    headers = [one.headers for one in consume(TOPIC, key=str, value=dict, log=tmp_path / "log")]
    assert headers[0] == (("Idempotency-Key", b"a"),)
    assert headers[2] == ()


def test_keys_are_forgotten_after_a_while(at: Any, tmp_path: Path):
    source = HttpSource(0, remember="1 ms")
    with at(source):
        served(source)
        for _ in range(2):
            assert not post(source, {"n": 1}, "a").json()["repeated"]
            threading.Event().wait(0.02)
    assert len(found(tmp_path)) == 2


def test_many_clients_at_once_that_repeat_themselves_are_stored_once_each(at: Any, tmp_path: Path):
    source = HttpSource(0)
    with at(source), ThreadPoolExecutor(8) as clients:
        served(source)
        answers = list(clients.map(lambda n: post(source, {"n": n // 3}, f"k{n // 3}").status_code, range(120)))
    assert answers == [200] * 120
    assert sorted(row["n"] for _, row in found(tmp_path)) == list(range(40))


def test_lines_are_records_and_come_together(at: Any, tmp_path: Path):
    source = HttpSource(0, key="k")
    lines = '{"k": "a"}\r\n\n{"k": "b"}'
    with at(source):
        served(source)
        post(source, lines, "x", headers={"Content-Type": "application/x-ndjson; charset=utf-8"})
        post(source, lines, "x", headers={"Content-Type": "application/x-ndjson"})
    assert found(tmp_path) == [("a", {"k": "a"}), ("b", {"k": "b"})]


def test_a_body_is_taken_whole_up_to_its_largest_size(at: Any, tmp_path: Path):
    source = HttpSource(0)
    with at(source):
        served(source)
        assert [post(source, b"x" * size).status_code for size in (70_000, 300_000, 1_000_000)] == [200] * 3
    values = [one.value for one in consume(TOPIC, key=bytes, value=bytes, log=tmp_path / "log")]
    assert values == [b"x" * size for size in (70_000, 300_000, 1_000_000)]


def test_requests_that_cannot_be_taken_are_refused(at: Any, tmp_path: Path):
    token = "a-token-of-24-characters"
    source = HttpSource(0, path="/in", token=token, needs_repeat_header=True, largest=100)
    own = {"Authorization": f"Bearer {token}"}
    with at(source):
        served(source)
        refused = {
            401: [post(source, {}, "a"), post(source, {}, "a", headers={"Authorization": "Bearer other"})],
            404: [post(source, {}, "a", headers=own, url=source.url + "/more")],
            405: [post(source, {}, "a", headers=own, method="GET"), post(source, {}, "a", headers=own, method="PUT")],
            400: [post(source, {}, headers=own), post(source, b"", "a", headers=own)],
            413: [post(source, b"x" * 101, "a", headers=own), _chunked(source, own)],
            421: [post(source, {}, "a", headers={**own, "Host": "shop.example"})],
        }
        assert {status: [one.status_code for one in each] for status, each in refused.items()} == {
            status: [status] * len(each) for status, each in refused.items()
        }
        assert post(source, {"n": 1}, "a", headers=own).status_code == 200
    assert found(tmp_path) == [(None, {"n": 1})]


def _chunked(source: HttpSource, headers: dict[str, str]) -> Any:
    """Post a body whose length nobody says."""
    body = iter([b"x" * 60, b"x" * 60])
    return httpx.post(source.url, content=body, headers={**headers, "Idempotency-Key": "a"}, timeout=30)


def test_a_function_judges_requests(at: Any, tmp_path: Path):
    def verify(headers: dict[str, str], body: bytes) -> Any:
        if headers["x-signature"] == "fail":
            raise ValueError
        return headers["x-signature"] == str(len(body)) or "yes"

    source = HttpSource(0, verify=verify)
    with at(source):
        served(source)
        codes = [post(source, b"[1]", headers={"X-Signature": said}).status_code for said in ("3", "4", "fail")]
    assert codes == [200, 401, 401]
    assert len(found(tmp_path, list)) == 1


def test_a_full_inbox_sends_clients_away_and_an_answer_that_takes_too_long_is_given_up(
    at: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(inbox, "_MOST_REQUESTS", 1)
    going, source = threading.Event(), HttpSource(0, timeout="200 ms")
    take = inbox.Inbox.take
    monkeypatch.setattr(
        inbox.Inbox, "take", lambda self, most, seconds: take(self, most, seconds) if going.is_set() else []
    )
    with at(source):
        served(source)
        late = post(source, {"n": 1}, "a")
        full = post(source, {"n": 2}, "b")
        assert (late.status_code, late.headers["retry-after"]) == (503, "1")
        assert "not known: send it again with the same key" in late.json()["error"]
        assert (full.status_code, full.json()) == (503, {"error": "too many requests wait: send it again later"})
        going.set()
        until(lambda: post(source, {"n": 1}, "a").status_code == 200)
        until(lambda: post(source, {"n": 2}, "b").status_code == 200)
    assert [row["n"] for _, row in found(tmp_path)] == [1, 2]


def insisted(source: HttpSource, content: Any, name: str) -> Any:
    """Post until it is stored, as clients of webhooks do."""
    answers: list[Any] = []

    def is_stored() -> bool:
        try:
            answers.append(post(source, content, name))
        except httpx.TransportError:
            return False
        return bool(answers[-1].status_code == 200)

    until(is_stored)
    return answers[-1]


@pytest.mark.parametrize("is_stored", [False, True])
def test_when_an_append_fails_the_client_hears_that_nothing_is_known_and_asks_again(
    is_stored: bool, at: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    append, failed = feed.Feed._append, []

    def fail(self: Any, *given: Any) -> int:
        if not failed:
            failed.append(is_stored and append(self, *given))
            raise OSError("the disk is slow")
        return append(self, *given)

    monkeypatch.setattr(feed.Feed, "_append", fail)
    source = HttpSource(0)
    with at(source):
        served(source)
        assert post(source, {"n": 1}, "a").status_code == 503
        assert insisted(source, {"n": 1}, "a").json() == {"stored": True, "repeated": is_stored}
    assert found(tmp_path) == [(None, {"n": 1})]


def test_the_server_ends_with_the_program_and_its_port_is_free(at: Any):
    source = HttpSource(0)
    for _ in range(2):
        with at(source):
            served(source)
            url = source.url
        with pytest.raises(httpx.TransportError):
            httpx.get(url, timeout=5)
    assert source.url == url


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"port": 70_000}, "port is a number from 0 to 65535"),
        ({"path": "in"}, "path begins with a slash"),
        ({"path": "/health"}, "/health is a path for probes, which need no token"),
        ({"key": ""}, "key is the name of a field"),
        ({"verify": 5}, "verify is a function"),
        ({"repeat_header": ""}, "repeat_header is the name of a header"),
        ({"needs_repeat_header": 1}, "needs_repeat_header is True or False"),
        ({"host": "0.0.0.0"}, "at 0.0.0.0, everybody who reaches this machine could post records"),
        ({"host": "http://x"}, "HttpSource: the address to listen at is a name or an IP address"),
        ({"token": "short"}, "HttpSource: the token needs at least 16 characters"),
        ({"largest": "5 apples"}, "HttpSource: largest"),
    ],
)
def test_arguments_that_cannot_be_meant_are_refused(options: Any, why: str):
    with pytest.raises(ConfigError, match=why):
        HttpSource(**{"port": 0, **options})


def test_values_are_json_text_or_bytes(at: Any):
    with (
        pytest.raises(ConfigError, match="the values of an HttpSource are bodies of requests"),
        at(HttpSource(0), value=int),
    ):
        pass


def test_a_whole_program_counts_requests(tmp_path: Path):
    builder = StreamsBuilder()
    source = HttpSource(0, key="who")
    clicks = builder.source(source, "clicks", key=str, value=dict, partitions=2)
    clicks.group_by_key().count("counts").to_stream().to("counts")
    places = {"log": tmp_path / "log", "state_dir": tmp_path / "state"}
    with pytest.raises(ConfigError, match=r"source 'clicks' .* has no end, so no program can end with it"):
        builder.build().start("shop", engine="local", slots=1, trigger="available-now", **places)
    with builder.build().start("shop", engine="local", slots=1, **places) as streams:
        served(source)
        for n in range(6):
            assert post(source, {"who": "ab"[n % 2]}, f"{n // 2}{n % 2}").status_code == 200
        streams.process_all_available()
    counts = {one.key: one.value for one in consume("counts", key=str, value=int, log=tmp_path / "log")}
    assert counts == {"a": 3, "b": 3}
