"""The state of an application over HTTP: JSON for people and programs, Arrow for tables.

Each answer is of one commit, and names it. Reads never wait for an update: one thread follows the application, and
reads show the commit that it applied last.
"""

from __future__ import annotations

import re
import secrets
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple, Self
from urllib.parse import unquote_to_bytes

import pyarrow as pa
import pyarrow.ipc as ipc

from penstock.errors import ConfigError, PenstockError, SerdeError
from penstock.query.application import ApplicationStores
from penstock.query.bounded import BACKLOG, bounded_protocol
from penstock.query.dicts import KeyRange
from penstock.query.guard import Guarded, check_access, url_of
from penstock.query.health import STALLED_MS, Health, HealthCheck
from penstock.query.key_value import KeyValueView
from penstock.query.plain import as_json
from penstock.query.rows import key_of, rows_of
from penstock.query.stores import AnyView, view_of
from penstock.query.versions import Pinned
from penstock.state.interface import IsolationLevel
from penstock.values.durations import to_ms

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

HOST, PORT = "127.0.0.1", 8092
ARROW = "application/vnd.apache.arrow.stream"
_FEW, _MOST = 50, 10_000
_FOLLOW_SECONDS, _SELDOM_SECONDS = 0.02, 0.5
_PAUSE_TIMES = 9
"""How many times longer the pause is than the preceding update: a tenth of a core, as long as that keeps up."""
_CURSOR_SECONDS, _MOST_CURSORS = 60.0, 100
_OF_HEALTH = ("stalled",)
_LEVEL = ("isolation_level",)
_PARAMETERS = ("from", "to", "prefix", "reverse", "limit", "cursor", *_LEVEL)


_LEVELS = tuple(level.value for level in IsolationLevel)


class Served(NamedTuple):
    """The content of a server, behind its guard."""

    app: Any
    """An ASGI application."""
    login: bytes | None = None
    """The page that asks for the token, see :class:`~penstock.query.guard.Guarded`; None without one."""
    on_close: Callable[[], None] = lambda: None
    """Closes open pages."""
    on_start: Callable[[], None] = lambda: None
    """Called when the server listens."""


class WrongRequestError(Exception):
    """A request that cannot be answered, with an HTTP status."""

    def __init__(self, status: int, message: str, **more: Any):
        super().__init__(message)
        self.status = status
        self.more = more


class _ManyRowsError(Exception):
    """An answer that is too long to return at once."""


class _Asked(NamedTuple):
    """A request for rows of a store."""

    within: KeyRange
    prefix: bytes | None
    reverse: bool


class _Open(NamedTuple):
    """Rows that were returned partly; the rest is of the same commit."""

    rows: Iterator[dict[str, Any]]
    next: dict[str, Any]
    view: AnyView
    until: float


class Cursors:
    """The rows after returned pages, for a minute; the least recently requested ones are dropped first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[str, _Open] = {}

    def keep(self, rows: Iterator[dict[str, Any]], next_: dict[str, Any], view: AnyView) -> str:
        """Keep the rows after a page, under a name."""
        name, now = secrets.token_urlsafe(12), time.monotonic()
        with self._lock:
            self._open = {key: one for key, one in self._open.items() if one.until > now}
            while len(self._open) >= _MOST_CURSORS:
                del self._open[next(iter(self._open))]
            self._open[name] = _Open(rows, next_, view, now + _CURSOR_SECONDS)
        return name

    def take(self, name: str, store: str) -> _Open:
        """Take the rows that were kept under a name, which is valid for one page."""
        with self._lock:
            found = self._open.pop(name, None)
        if found is None or found.view.name != store or found.until < time.monotonic():
            raise WrongRequestError(
                410,
                f"there is no cursor {name!r} of the store {store!r}: it is valid for one page, for "
                f"{_CURSOR_SECONDS:.0f} seconds. Ask for the first page again, without cursor",
            )
        return found


def app(stores: ApplicationStores, health: HealthCheck | None = None) -> Any:
    """The ASGI application, for any server; raises ``ConfigError`` if Starlette is not installed.

    Args:
        health: determines the application's health; by default only from its commits.
    """
    try:
        from starlette.applications import Starlette
        from starlette.routing import Route
    except ImportError:
        raise ConfigError(
            "serving state over HTTP needs Starlette and uvicorn: pip install 'penstock-streams[serve]'"
        ) from None
    answers, check = _Answers(stores), health or HealthCheck(stores)
    routes = [
        Route("/", told(answers.listing)),
        Route("/health", told(_told_health(check), _OF_HEALTH)),
        Route("/health/live", told(_told_health(check), _OF_HEALTH)),
        Route("/health/ready", told(_told_health(check, lambda found: found.is_ready), _OF_HEALTH)),
        Route("/stores", told(answers.listing)),
        Route("/stores/{store}", told(answers.rows, _PARAMETERS)),
        Route("/stores/{store}/{key:path}", _with_few(answers.of_key, stores.is_here, answers.is_committed)),
    ]
    return Starlette(routes=routes, exception_handlers={404: _nothing_there, 405: _only_get})


def _told_health(
    check: HealthCheck, is_fine: Callable[[Health], bool] = lambda found: found.is_well
) -> Callable[[Request], Response]:
    def answer(request: Request) -> Response:
        health = check.look(to_ms(request.query_params.get("stalled", STALLED_MS), "stalled"))
        return json_answer(health, 200 if is_fine(health) else 503)

    return answer


def told(
    answer: Callable[[Request], Response], parameters: Collection[str] | None = ()
) -> Callable[[Request], Response]:
    """Wrap a handler so that failed requests are answered with an error as JSON.

    Args:
        parameters: the parameters that a request may have, each once; None for any, which are ignored.
    """

    def answered(request: Request) -> Response:
        try:
            if parameters is not None:
                _check_parameters(request, parameters)
            return answer(request)
        except WrongRequestError as error:
            return json_answer({"error": str(error), **error.more}, error.status)
        except (SerdeError, ConfigError) as error:
            return json_answer({"error": str(error)}, 400)
        except (PenstockError, OSError) as error:
            return json_answer({"error": str(error)}, 503)

    return answered


def _check_parameters(request: Request, known: Collection[str]) -> None:
    """Raise ``WrongRequestError`` for parameters that would be ignored, and for text that is not UTF-8."""
    given = [name for name, _ in request.query_params.multi_items()]
    for name in sorted(given):
        if name not in known:
            there = {"parameters": list(known)} if known else {}
            raise WrongRequestError(400, f"unknown parameter {name!r}", **there)
        if given.count(name) > 1:
            raise WrongRequestError(400, f"the parameter {name!r} is given {given.count(name)} times")
    for written in (request.scope.get("raw_path", b""), request.scope["query_string"]):
        try:
            unquote_to_bytes(written).decode()
        except UnicodeDecodeError:
            raise WrongRequestError(400, f"{written.decode('latin-1')!r} is not the UTF-8 of a text") from None


def _with_few(
    answer: Callable[..., Response], is_here: Callable[[str], bool], is_committed: Callable[[Request], bool]
) -> Callable[[Request], Any]:
    """Answer directly if there are few rows of a store that is available: a thread would cost more than that. All other
    answers come from threads."""
    from starlette.concurrency import run_in_threadpool

    async def answered(request: Request) -> Response:
        if is_here(request.path_params["store"]) and is_committed(request):
            with suppress(_ManyRowsError):
                return told(partial(answer, most=_FEW), _LEVEL)(request)
        return await run_in_threadpool(told(answer, _LEVEL), request)

    return answered


class _Answers:
    """The answers of all addresses."""

    def __init__(self, stores: ApplicationStores):
        self._stores = stores
        self._cursors = Cursors()

    def listing(self, request: Request) -> Response:
        """All stores."""
        newest = self._stores.commits.newest()
        found = [
            {"store": one.name, "kind": one.format.kind, "key": one.format.key, "value": one.format.value}
            for one in self._stores.commits.shapes(newest).values()
        ]
        return json_answer({"commit": newest.commit, "stores": found})

    def rows(self, request: Request) -> Response:
        """The rows of a store: a page as JSON, or all of them as Arrow."""
        view = self._view(request)
        if ARROW in request.headers.get("accept", ""):
            return _arrow(view, request)
        limit = limit_of(request)
        rows: Iterator[dict[str, Any]]
        if "cursor" in request.query_params:
            kept = self._cursors.take(request.query_params["cursor"], view.name)
            view, rows = kept.view, chain([kept.next], kept.rows)
        else:
            within, prefix, reverse = _asked(view, request)
            rows = rows_of(view, within=within, prefix=prefix, reverse=reverse)
        shown = list(islice(rows, limit))
        more = next(rows, None)
        cursor = None if more is None else self._cursors.keep(rows, more, view)
        return json_answer({"store": view.name, "commit": view.commit, "rows": shown, "cursor": cursor})

    def of_key(self, request: Request, most: int | None = None) -> Response:
        """The rows of a store for a key; raises ``_ManyRowsError`` if there are more than ``most``."""
        view = self._view(request)
        text = request.path_params["key"]
        every = rows_of(view, key=key_of(view.shape.key, text))
        found = list(islice(every, most))
        if most is not None and next(every, None) is not None:
            raise _ManyRowsError
        if not found:
            raise WrongRequestError(
                404, f"the store {view.name!r} has nothing for the key {text!r}", commit=view.commit
            )
        rows = {"row": found[0]} if isinstance(view, KeyValueView) else {"rows": found}
        return json_answer({"store": view.name, "commit": view.commit, **rows})

    def _view(self, request: Request) -> AnyView:
        """The store of an address, as of the last update."""
        name = request.path_params["store"]
        try:
            store = self._stores.store(name)
        except ConfigError:
            known = list(self._stores.shapes())
            if name in known:
                raise
            raise WrongRequestError(404, f"there is no store {name!r}", stores=known) from None
        if self.asks_tasks(request):
            return self._stores.view(name, IsolationLevel.READ_UNCOMMITTED)
        return view_of(Pinned(store.known), store.shape)

    def is_committed(self, request: Request) -> bool:
        """Return whether a request is for what is committed, as far as that can be told without an error."""
        given = request.query_params.get("isolation_level", self._stores.isolation_level.value)
        return bool(given.lower() == IsolationLevel.READ_COMMITTED.value)

    def asks_tasks(self, request: Request) -> bool:
        """Return whether running tasks are asked for what is not committed."""
        given = request.query_params.get("isolation_level")
        level = self._stores.isolation_level.value if given is None else given.lower()
        if level not in _LEVELS:
            raise WrongRequestError(400, f"isolation_level is one of {', '.join(_LEVELS)}, got {given!r}")
        return level == IsolationLevel.READ_UNCOMMITTED.value


def _asked(view: AnyView, request: Request) -> _Asked:
    given = request.query_params
    prefix = given.get("prefix")
    if prefix is not None and ("from" in given or "to" in given):
        raise WrongRequestError(400, "prefix cannot be combined with from and to")
    low, high = (None if given.get(name) is None else key_of(view.shape.key, given[name]) for name in ("from", "to"))
    reverse = given.get("reverse", "false").lower()
    if reverse not in ("true", "false", "1", "0"):
        raise WrongRequestError(400, f"reverse is true or false, got {reverse!r}")
    return _Asked(KeyRange(low, high), None if prefix is None else prefix.encode(), reverse in ("true", "1"))


def limit_of(request: Request, usual: int = 100, most: int = _MOST) -> int:
    """The requested number of rows; raises ``WrongRequestError`` if it is invalid."""
    text = request.query_params.get("limit", str(usual))
    if not re.fullmatch("[0-9]{1,9}", text) or not 1 <= int(text) <= most:
        raise WrongRequestError(400, f"limit is a number from 1 to {most}, got {text!r}")
    return int(text)


def _arrow(view: AnyView, request: Request) -> Response:
    from starlette.responses import StreamingResponse

    if any(name not in _LEVEL for name in request.query_params):
        raise WrongRequestError(400, "Arrow returns whole stores: leave the parameters out, or ask for JSON")
    return StreamingResponse(_stream(view), media_type=ARROW, headers={"penstock-commit": str(view.commit)})


class _Written:
    """A file that returns what was written since the last call."""

    closed = False

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def write(self, data: Any) -> int:
        self._pieces.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        """Do nothing: writes are available at once."""

    def take(self) -> bytes:
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)


def _stream(view: AnyView) -> Iterator[bytes]:
    """A store as an Arrow stream, batch by batch."""
    reader, sink = view.to_arrow(), _Written()
    writer = ipc.new_stream(pa.PythonFile(sink, "w"), reader.schema)
    for batch in reader:
        writer.write_batch(batch)
        yield sink.take()
    writer.close()
    yield sink.take()


def json_answer(content: Any, status: int = 200) -> Response:
    """Content as JSON."""
    from starlette.responses import Response

    return Response(as_json(content), status, media_type="application/json")


def _nothing_there(request: Request, error: Exception) -> Response:
    message = f"there is nothing at {request.url.path}; there are /stores, /stores/STORE and /stores/STORE/KEY"
    return json_answer({"error": message}, 404)


def _only_get(request: Request, error: Exception) -> Response:
    return json_answer({"error": f"state is only read: use GET, got {request.method}"}, 405)


class StateServer:
    """Serves the state of an application from a thread until it is closed.

    Args:
        stores: the stores of the application.
        host: the address to listen on.
        port: 0 takes a free one.
        served: the content, if it is not ``app`` of these stores.
        token: the token that requests need; None for none.
        is_open: True to let everybody who reaches the address read, without a token.
        kept: the result of ``keep_port`` for this address, if it was called before.

    Raises:
        ConfigError: the address cannot be used, or not without a token; or Starlette and uvicorn are not installed.
    """

    def __init__(
        self,
        stores: ApplicationStores,
        host: str = HOST,
        port: int = PORT,
        served: Served | None = None,
        token: str | None = None,
        is_open: bool = False,
        kept: socket.socket | None = None,
    ):
        check_access(host, token, is_open)
        self._served = served = served or Served(app(stores))
        import uvicorn

        self._stores = stores
        self._socket = _listening(kept or keep_port(host, port), host)
        self.port: int = self._socket.getsockname()[1]
        self.url = url_of(host, self.port)
        config = uvicorn.Config(
            Guarded(served.app, host, token, served.login),
            http=bounded_protocol(),
            ws="none",
            backlog=BACKLOG,
            log_level="warning",
            lifespan="off",
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)
        self._ended = threading.Event()
        self._threads = [
            threading.Thread(target=self._server.run, args=[[self._socket]], name="penstock state server", daemon=True),
            threading.Thread(target=self._follow, name="penstock state follower", daemon=True),
        ]
        for thread in self._threads:
            thread.start()
        served.on_start()

    def _follow(self) -> None:
        """Apply the application's commits: at once while that is cheap, otherwise less often and many commits
        together."""
        pause = _FOLLOW_SECONDS
        while not self._ended.wait(pause):
            began = time.thread_time()
            self._stores.catch_up()
            pause = min(max(_PAUSE_TIMES * (time.thread_time() - began), _FOLLOW_SECONDS), _SELDOM_SECONDS)

    def wait(self) -> None:
        """Serve until Ctrl-C."""
        try:
            while self._threads[0].is_alive():
                self._threads[0].join(1.0)
        except KeyboardInterrupt:
            pass

    def close(self) -> None:
        """Answer the open requests, and stop."""
        self._ended.set()
        self._served.on_close()
        self._server.should_exit = True
        for thread in self._threads:
            thread.join()
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def keep_port(host: str, port: int, option: str = "--port") -> socket.socket:
    """Reserve an address for a server that starts to listen later.

    Args:
        option: the command-line option for another port, for the message.

    Raises:
        ConfigError: it is in use, or not an address of this machine.
    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        kept = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    except OSError as error:
        raise _no_listening(host, port, option, error) from None
    try:
        # asyncio does so for sockets of its own; else the second part of an answer waits 40 ms for the client
        kept.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        kept.bind((host, port))
    except OSError as error:
        kept.close()
        raise _no_listening(host, port, option, error) from None
    return kept


def _listening(kept: socket.socket, host: str) -> socket.socket:
    try:
        kept.listen(BACKLOG)  # whoever is told the address now is answered, if only when the server runs
    except OSError as error:  # somebody else has kept it as well, and was faster
        port = kept.getsockname()[1]
        kept.close()
        raise _no_listening(host, port, "port", error) from None
    return kept


def _no_listening(host: str, port: int, option: str, error: OSError) -> ConfigError:
    return ConfigError(
        f"cannot listen at {host}, port {port}: {error.strerror or error}; give another {option}, 0 takes a free one"
    )
