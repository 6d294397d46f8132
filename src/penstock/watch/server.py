"""The page over HTTP: files, figures as JSON and as server-sent events, and all addresses of ``penstock serve``."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from importlib.resources import files
from typing import TYPE_CHECKING

import msgspec

from penstock.errors import ConfigError
from penstock.log.base import Log
from penstock.query.application import ApplicationStores
from penstock.query.health import HealthCheck
from penstock.query.plain import as_json
from penstock.query.server import Served, app, json_answer, limit_of, told
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
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}
_EVENT_SECONDS = 0.5
_MOST_PAGES = 32
"""The most pages that are notified of commits at a time."""

_MOST_ROWS = 1_000


def page_app(stores: ApplicationStores, log: Log | None, state: Callable[[], str] | None = None) -> Served:
    """The page, and all addresses of :func:`penstock.query.server.app`; it asks for the token, if there is one.

    Args:
        state: the state of the program, if it is this process.

    Raises:
        ConfigError: Starlette is not installed.
    """
    health = HealthCheck(stores, log, state)
    served = app(stores, health)
    from starlette.routing import Route

    page = Page(Application(stores, log, health), threading.Event())
    routes = [Route(f"/{name}", _file(*file), methods=["GET"]) for name, file in _FILES.items()]
    routes += [
        Route("/api/picture", told(page.picture)),
        Route("/api/figures", told(page.figures)),
        Route("/api/events", page.events),
        Route("/api/held/{node}", told(page.held, ("limit",))),
        Route("/api/topics/{topic}", told(page.newest, ("limit",))),
        Route("/metrics", told(page.metrics, None)),
    ]
    served.router.routes[:0] = routes
    return Served(served, _content("login.html"), page.ended.set)


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


def check_installed(what: str = "the page") -> None:
    """Raise ``ConfigError`` if a package that serves the page, or state over HTTP, is not installed."""
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError:
        raise ConfigError(f"{what} needs Starlette and uvicorn: pip install 'penstock-streams[serve]'") from None
