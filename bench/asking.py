"""Calls of a model over HTTP: one by one with ``map_values``, and side by side with ``map_values_async``.

    python -m bench.asking [MILLISECONDS]

A server of its own process answers after so many milliseconds (200 by default). One slot of the local engine asks it
with the functions of the recipe in docs/recipes.md: with httpx, and with aiohttp if it is installed. Times begin with
the start of the program and end with its end.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from itertools import cycle
from pathlib import Path
from typing import Any

import httpx

from penstock import KStream, StreamsBuilder, produce

_ONE_BY_ONE = 50
_WAYS = [(2_000, 200, None, 1), (10_000, 200, None, 50), (20_000, 50, 64, 1)]
"""Records, ``capacity``, ``batch`` and the number of clients of each way to ask with httpx."""
_WITH_AIOHTTP = [(20_000, 200), (20_000, 400)]
"""Records and ``capacity`` of each way to ask with aiohttp."""
_LONGEST_BODY = 1 << 20


def one_by_one(url: str) -> Callable[[str], int]:
    @cache
    def client() -> httpx.Client:
        return httpx.Client(base_url=url, timeout=None, trust_env=False)

    def score(text: str) -> int:
        found: int = client().post("/", json=[text]).raise_for_status().json()[0]
        return found

    return score


def seconds(url: str, count: int, step: Callable[[KStream[str, str], str], KStream[str, int]]) -> float:
    """How long a program takes that asks for each of so many texts."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        produce([("a", f"text {n}") for n in range(count)], "texts", key=str, value=str, log=log, partitions=1)
        builder = StreamsBuilder()
        step(builder.stream("texts", key=str, value=str), url).to("scores")
        begin = time.monotonic()
        places: dict[str, Any] = {"log": log, "state_dir": Path(folder) / "state", "slots": 1}
        builder.build().start("asks", engine="local", trigger="available-now", **places).await_termination()
        return time.monotonic() - begin


def in_turn(texts: KStream[str, str], url: str) -> KStream[str, int]:
    return texts.map_values(one_by_one(url), value=int)


def side_by_side(
    capacity: int, batch: int | None, clients: int, texts: KStream[str, str], url: str
) -> KStream[str, int]:
    @cache
    def pools() -> Iterator[httpx.AsyncClient]:
        given: dict[str, Any] = {"limits": httpx.Limits(max_connections=None), "verify": ssl.create_default_context()}
        return cycle([httpx.AsyncClient(base_url=url, timeout=None, trust_env=False, **given) for _ in range(clients)])

    async def scores(texts: list[str]) -> list[int]:
        found: list[int] = (await next(pools()).post("/", json=texts)).raise_for_status().json()
        return found

    async def score(text: str) -> int:
        return (await scores([text]))[0]

    if batch is None:
        return texts.map_values_async(score, value=int, capacity=capacity)
    return texts.map_values_async(scores, value=int, capacity=capacity, batch=batch)


def with_aiohttp(capacity: int, texts: KStream[str, str], url: str) -> KStream[str, int]:
    @cache
    def session() -> Any:
        aiohttp = import_module("aiohttp")
        return aiohttp.ClientSession(url, connector=aiohttp.TCPConnector(limit=0))

    async def score(text: str) -> int:
        async with session().post("/", json=[text], raise_for_status=True) as answer:
            found: list[int] = await answer.json(content_type=None)
            return found[0]

    return texts.map_values_async(score, value=int, capacity=capacity)


async def serve(wait: float) -> None:
    """Answer with the numbers of words, each request after a while."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readuntil(b"\r\n\r\n"):
            lines = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:-2])
            texts = json.loads(await reader.readexactly(min(int(lines[b"content-length"]), _LONGEST_BODY)))
            await asyncio.sleep(wait)
            answer = json.dumps([len(text.split()) for text in texts]).encode()
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(answer), answer))

    server = await asyncio.start_server(talk, "127.0.0.1", 0, backlog=1_000)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def main() -> None:
    wait = sys.argv[1] if len(sys.argv) > 1 else "200"
    command = [sys.executable, "-m", "bench.asking", "--serve", wait]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout is not None
        url = f"http://127.0.0.1:{server.stdout.readline().strip()}"
        slow = _ONE_BY_ONE / seconds(url, _ONE_BY_ONE, in_turn)
        print(f"one by one: {slow:,.1f} records a second", flush=True)
        for count, capacity, batch, clients in _WAYS:
            fast = count / seconds(url, count, partial(side_by_side, capacity, batch, clients))
            way = f"httpx, {capacity=}, {batch=}, {clients=}"
            print(f"{way}: {fast:,.0f} records a second, {fast / slow:,.0f} times", flush=True)
        for count, capacity in _WITH_AIOHTTP if find_spec("aiohttp") is not None else ():
            fast = count / seconds(url, count, partial(with_aiohttp, capacity))
            print(f"aiohttp, {capacity=}: {fast:,.0f} records a second, {fast / slow:,.0f} times", flush=True)
        server.terminate()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        asyncio.run(serve(float(sys.argv[2]) / 1000))
    else:
        main()
