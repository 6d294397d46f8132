"""The page over HTTP: files, figures as JSON and as server-sent events, and all addresses of ``penstock serve``."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import msgspec

from penstock.errors import ConfigError, PenstockError
from penstock.log.base import Log
from penstock.query.application import ApplicationStores
from penstock.query.health import HealthCheck
from penstock.query.plain import as_json
from penstock.query.server import Served, WrongRequestError, app, json_answer, limit_of, told
from penstock.watch.figures import Application
from penstock.watch.neighbours import Neighbours
from penstock.watch.prometheus import exposition
from penstock.watch.why import Replays

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

_FILES = {
    "": ("index.html", "text/html"),
    "page.css": ("page.css", "text/css"),
    "theme.js": ("theme.js", "text/javascript"),
    "app.js": ("app.js", "text/javascript"),
    "graph.js": ("graph.js", "text/javascript"),
    "charts.js": ("charts.js", "text/javascript"),
    "why.js": ("why.js", "text/javascript"),
    "panel.js": ("panel.js", "text/javascript"),
    "text.js": ("text.js", "text/javascript"),
    "icon.svg": ("icon.svg", "image/svg+xml"),
}
_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}
_EVENT_SECONDS = 0.5
_SAMPLE_SECONDS = 2.0
_SAMPLE_SHARE = 100
"""The history takes at most one in so many parts of the time."""
_MOST_PAGES = 32
"""The most pages that are notified of commits at a time."""

_MOST_ROWS = 1_000
_FEW_REPLAYED, _MOST_REPLAYED = 2_000, 100_000
"""A replay takes milliseconds for each record, and a page waits for it."""


def page_app(
    stores: ApplicationStores,
    log: Log | None,
    state: Callable[[], str] | None = None,
    replays: Replays | None = None,
    shows_others: bool = False,
) -> Served:
    """The page, and all addresses of :func:`penstock.query.server.app`; it asks for the token, if there is one.

    Args:
        state: the state of the program, if it is this process.
        replays: tells why a key got its result; None where the program is not known.
        shows_others: whether the pages of the other applications of the log are served, too.

    Raises:
        ConfigError: Starlette is not installed.
    """
    others = Neighbours(stores, log, (lambda its, log: _served(its, log, None, others)) if shows_others else None)
    return _served(stores, log, state, others, replays, is_first=True)


def _served(
    stores: ApplicationStores,
    log: Log | None,
    state: Callable[[], str] | None,
    others: Neighbours,
    replays: Replays | None = None,
    is_first: bool = False,
) -> Served:
    """The page of one application.

    Args:
        is_first: whether the server belongs to this application; then it has the pages of the others, too.
    """
    health = HealthCheck(stores, log, state)
    served = app(stores, health)
    from starlette.routing import Mount, Route

    page = Page(Application(stores, log, health), others, replays)
    routes = [Route(f"/{name}", _file(*file), methods=["GET"]) for name, file in _FILES.items()]
    routes += [
        Route("/api/picture", told(page.picture)),
        Route("/api/figures", told(page.figures)),
        Route("/api/events", page.events),
        Route("/api/history/{span}", told(page.history)),
        Route("/api/held/{node}", told(page.held, ("limit",))),
        Route("/api/topics/{topic}", told(page.newest, ("limit",))),
        Route("/api/letters", told(page.letters, ("limit",))),
        Route("/api/why/{node}/{key:path}", told(page.why, ("limit",))),
        Route("/api/applications", told(page.applications)),
        Route("/metrics", told(page.metrics, None)),
    ]
    if is_first:
        routes.append(Mount("/applications/{name}", app=OtherPages(others)))
    served.router.routes[:0] = routes

    def close() -> None:
        page.close()
        if is_first:
            others.close()

    return Served(served, _content("login.html"), close, page.begin)


def _content(name: str) -> bytes:
    return (files("penstock.watch") / "page" / name).read_bytes()


def _file(name: str, media_type: str) -> Callable[[Request], Response]:
    from starlette.responses import Response

    content = _content(name)

    def answer(request: Request) -> Response:
        return Response(content, media_type=media_type, headers=_HEADERS)

    return answer


class Page:
    """The data of the page."""

    def __init__(self, application: Application, others: Neighbours, replays: Replays | None = None):
        self._application, self._others, self._replays = application, others, replays
        self.ended = threading.Event()
        self._pages = 0
        self._lock = threading.Lock()

    def picture(self, request: Request) -> Response:
        """The topology."""
        return json_answer(self._application.picture())

    def figures(self, request: Request) -> Response:
        """All figures as of the newest commit."""
        return json_answer(msgspec.Raw(self._figures()))

    def _figures(self) -> bytes:
        return msgspec.json.encode(self._application.figures(), enc_hook=str)

    def begin(self) -> None:
        """Look at the application from now on, so that a page which is opened later has a history to show."""
        threading.Thread(target=self._watch, name="penstock page history", daemon=True).start()

    def _watch(self) -> None:
        pause = _SAMPLE_SECONDS
        while not self.ended.wait(pause):
            began = time.thread_time()
            with suppress(Exception):  # those who ask are told
                self._application.figures()
            pause = max(_SAMPLE_SECONDS, _SAMPLE_SHARE * (time.thread_time() - began))

    def close(self) -> None:
        """End what runs for the page."""
        self.ended.set()
        if self._replays is not None:
            self._replays.close()

    def history(self, request: Request) -> Response:
        """Rate, lag, latency and state over time."""
        return json_answer(self._application.history(request.path_params["span"]))

    def letters(self, request: Request) -> Response:
        """The newest dead letters."""
        return json_answer(self._application.letters(limit_of(request, 20, _MOST_ROWS)))

    def why(self, request: Request) -> Response:
        """The fate of a key's records in a step.

        A replay runs the program's functions, so pages of other sites must not cause one. They cannot send the header
        that this requires.
        """
        node, key = request.path_params["node"], request.path_params["key"]
        if request.headers.get("penstock-page") != "1":
            raise WrongRequestError(403, "a replay needs the header penstock-page: 1, which the page itself sends")
        if self._replays is None:
            raise WrongRequestError(
                404,
                "this page does not know the program: start it with `penstock run PROGRAM --ui`, or with "
                f"`penstock ui APPLICATION --program PROGRAM`; or run `penstock why PROGRAM {node} KEY` in a terminal",
            )
        return json_answer(self._replays.of(node, key, limit_of(request, _FEW_REPLAYED, _MOST_REPLAYED)))

    def applications(self, request: Request) -> Response:
        """All applications of the log."""
        return json_answer(self._others.listing())

    def held(self, request: Request) -> Response:
        """The entries that a step holds back."""
        return json_answer(self._application.held(request.path_params["node"], limit_of(request, 100, _MOST_ROWS)))

    def newest(self, request: Request) -> Response:
        """The newest records of a topic."""
        return json_answer(self._application.newest(request.path_params["topic"], limit_of(request, 50, _MOST_ROWS)))

    def metrics(self, request: Request) -> Response:
        """All figures for Prometheus."""
        from starlette.responses import Response

        text, media_type = exposition(self._application)
        return Response(text, headers={"content-type": media_type})

    async def events(self, request: Request) -> Response:
        """The figures at short intervals, as server-sent events."""
        from starlette.responses import StreamingResponse

        with self._lock:
            if self._pages >= _MOST_PAGES:
                return json_answer({"error": f"{_MOST_PAGES} pages are open already; close one"}, 503)
            self._pages += 1
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(self._told(request), media_type="text/event-stream", headers=headers)

    async def _told(self, request: Request) -> AsyncIterator[bytes]:
        try:
            while not self.ended.is_set() and not await request.is_disconnected():
                yield await asyncio.to_thread(self._event)
                await asyncio.sleep(_EVENT_SECONDS)
        finally:
            with self._lock:
                self._pages -= 1

    def _event(self) -> bytes:
        try:
            return b"event: figures\ndata: " + self._figures() + b"\n\n"
        except Exception as error:  # the page reports it, and keeps asking
            return b"event: trouble\ndata: " + as_json({"error": str(error)}) + b"\n\n"


class OtherPages:
    """The pages of the other applications of the log, each below its name."""

    def __init__(self, others: Neighbours):
        self._others = others

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        name = scope["path_params"]["name"]
        try:
            served, stores = await asyncio.to_thread(self._others.page, name)
            await asyncio.to_thread(stores.catch_up)
        except (PenstockError, OSError) as error:
            await json_answer({"error": str(error)}, 404)(scope, receive, send)
            return
        await served.app(scope, receive, send)


def check_installed(what: str = "the page") -> None:
    """Raise ``ConfigError`` if a package that serves the page, or state over HTTP, is not installed."""
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError:
        raise ConfigError(f"{what} needs Starlette and uvicorn: pip install 'penstock-streams[serve]'") from None
