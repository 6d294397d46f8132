"""The page over HTTP: files, figures as JSON and as server-sent events, and all that ``penstock serve`` answers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from penstock.errors import ConfigError
from penstock.log.base import Log
from penstock.query.application import ApplicationStores
from penstock.query.health import HealthCheck
from penstock.query.plain import as_json
from penstock.query.server import WrongRequestError, app, json_answer, told
from penstock.watch.figures import Application
from penstock.watch.prometheus import exposition

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

_FILES = {
    "": ("index.html", "text/html"),
    "page.css": ("page.css", "text/css"),
    "theme.js": ("theme.js", "text/javascript"),
    "app.js": ("app.js", "text/javascript"),
    "graph.js": ("graph.js", "text/javascript"),
    "panel.js": ("panel.js", "text/javascript"),
    "text.js": ("text.js", "text/javascript"),
    "icon.svg": ("icon.svg", "image/svg+xml"),
}
_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}
_LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})
_EVENT_SECONDS = 0.5
_MOST_PAGES = 32
"""How many pages are told of commits at a time."""

_MOST_ROWS = 1_000


def page_app(stores: ApplicationStores, log: Log | None, host: str, state: Callable[[], str] | None = None) -> PageApp:
    """The application of ASGI: the page, and all addresses of :func:`penstock.query.server.app`.

    Args:
        host: what it listens at. On this machine alone, requests under any other name are refused, so that no page
            from elsewhere reads state through a name that it makes point here.
        state: that of the program, where it is this process.

    Raises:
        ConfigError: Starlette is not installed.
    """
    served = app(stores, HealthCheck(stores, log, state))
    from starlette.routing import Route

    page = Page(Application(stores, log), threading.Event())
    routes = [Route(f"/{name}", _file(*file), methods=["GET"]) for name, file in _FILES.items()]
    routes += [
        Route("/api/picture", told(page.picture)),
        Route("/api/figures", told(page.figures)),
        Route("/api/events", page.events),
        Route("/api/held/{node}", told(page.held)),
        Route("/api/topics/{topic}", told(page.newest)),
        Route("/metrics", told(page.metrics)),
    ]
    served.router.routes[:0] = routes
    return PageApp(served, page.ended, host in _LOCAL)


class PageApp:
    """The page as an application of ASGI.

    Args:
        ended: is set when pages are to be told no more.
        is_local: whether only requests under this machine's own names are answered.
    """

    def __init__(self, served: Any, ended: threading.Event, is_local: bool):
        self._served = served
        self._ended = ended
        self._is_local = is_local

    def close(self) -> None:
        """Let go of the pages that are open."""
        self._ended.set()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and self._is_local:
            given = dict(scope["headers"]).get(b"host", b"").decode("latin-1")
            if urlsplit(f"//{given}").hostname not in _LOCAL:
                refusal = json_answer({"error": f"this is no server of {given!r}: ask for it as localhost"}, 421)
                await refusal(scope, receive, send)
                return
        await self._served(scope, receive, send)


def _file(name: str, media_type: str) -> Callable[[Request], Response]:
    from starlette.responses import Response

    content = (files("penstock.watch") / "page" / name).read_bytes()

    def answer(request: Request) -> Response:
        return Response(content, media_type=media_type, headers=_HEADERS)

    return answer


class Page:
    """What the page asks for."""

    def __init__(self, application: Application, ended: threading.Event):
        self._application = application
        self.ended = ended
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

    def held(self, request: Request) -> Response:
        """What a step holds back."""
        return json_answer(self._application.held(request.path_params["node"], _limit(request, 100)))

    def newest(self, request: Request) -> Response:
        """The newest records of a topic."""
        return json_answer(self._application.newest(request.path_params["topic"], _limit(request, 50)))

    def metrics(self, request: Request) -> Response:
        """All figures for Prometheus."""
        from starlette.responses import Response

        text, media_type = exposition(self._application)
        return Response(text, headers={"content-type": media_type})

    async def events(self, request: Request) -> Response:
        """The figures again and again, as server-sent events."""
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
        except Exception as error:  # the page tells of it, and goes on to ask
            return b"event: trouble\ndata: " + as_json({"error": str(error)}) + b"\n\n"


def _limit(request: Request, usual: int) -> int:
    text = request.query_params.get("limit", str(usual))
    if not text.isdecimal() or not 1 <= int(text) <= _MOST_ROWS:
        raise WrongRequestError(400, f"limit is a number from 1 to {_MOST_ROWS}, got {text!r}")
    return int(text)


def check_installed(what: str = "the page") -> None:
    """Raise ``ConfigError`` when what serves the page, or state over HTTP, is not installed."""
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError:
        raise ConfigError(f"{what} needs Starlette and uvicorn: pip install 'penstock[serve]'") from None
