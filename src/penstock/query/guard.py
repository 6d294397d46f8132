"""Access control for HTTP: answers requests under this machine's own names, or with the token (docs/decisions/0081)."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Iterable
from ipaddress import ip_address
from typing import Any
from urllib.parse import parse_qs

from penstock.errors import ConfigError
from penstock.query.plain import as_json

SHORTEST_TOKEN = 16
_HOST = re.compile(rb"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?")
FREE = frozenset({"/health", "/health/live", "/health/ready"})
"""Paths for probes, which have no token: they tell whether the application works, and how many records wait."""
_OF_LOGIN = frozenset({"/page.css", "/icon.svg"})
_LONGEST_FORM = 4096
_WRONG_SECONDS, _FORM_SECONDS = 0.5, 10.0
_LOGIN_POLICY = (
    b"default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)

Header = tuple[bytes, bytes]


def url_of(host: str, port: int) -> str:
    """Return where a server on this address is found.

    >>> url_of("::1", 80)
    'http://[::1]:80'
    """
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def is_local(host: str) -> bool:
    """True if only this machine can reach an address.

    >>> is_local("localhost"), is_local("::1"), is_local("0.0.0.0")
    (True, True, False)
    """
    name = host.strip("[]").rstrip(".").lower()
    try:
        return name == "localhost" or ip_address(name).is_loopback
    except ValueError:
        return False


def _is_address(host: str) -> bool:
    try:
        return bool(ip_address(host.strip("[]")))
    except ValueError:
        return False


def check_access(host: str, token: str | None, is_open: bool = False) -> None:
    """Raise ``ConfigError`` if others could reach an address and read everything without permission."""
    if token is not None and not re.fullmatch(rf"[!-~]{{{SHORTEST_TOKEN},}}", token):
        raise ConfigError(
            f"the token needs at least {SHORTEST_TOKEN} characters of ASCII, and no blanks; `openssl rand -hex 16` "
            "makes one"
        )
    if token is not None and is_open:
        raise ConfigError("there is a token, and --no-token as well; give one of them")
    if not re.fullmatch(r"[A-Za-z0-9.:%_\[\]-]+", host) or (":" in host and not _is_address(host)):
        raise ConfigError(f"the address to listen at is a name or an IP address, without scheme and port; got {host!r}")
    if not is_local(host) and token is None and not is_open:
        raise ConfigError(
            f"at {host}, everybody who reaches this machine could read all stores and topics: set a token in a file "
            "(--token-file) or the variable PENSTOCK_TOKEN, or let everybody read with --no-token"
        )


class Guarded:
    """An ASGI application behind access control.

    Args:
        served: the application for permitted requests.
        host: the address that it listens on. If only this machine can reach it, requests under any other name are
            refused, so that no foreign web page can read state through a name that it points here.
        token: the token of requests, as ``Authorization: Bearer``; None for none.
        login: a page that asks for the token, with ``<!-- said -->`` in the place of the error; None for no page.
    """

    def __init__(
        self,
        served: Any,
        host: str,
        token: str | None = None,
        login: bytes | None = None,
    ):
        self._served = served
        self._is_local = is_local(host)
        self._token = None if token is None else _digest(token.encode())
        self._login = login
        self._session = secrets.token_urlsafe(32).encode()
        """The cookie of a browser that has sent the token; valid as long as this process runs."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        send = _with_nosniff(send)
        if (refusal := self._host_refusal(scope)) is not None:
            await _answer(send, *refusal)
        elif self._is_let_in(scope):
            await self._served(scope, receive, send)
        elif self._login is not None and scope["path"] == "/login" and scope["method"] == "POST":
            await self._log_in(scope, receive, send)
        elif self._login is not None and scope["path"] == "/":
            await self._show_login(send, b"")
        else:
            error = "this needs the token: send the header Authorization: Bearer TOKEN"
            await _answer(send, 401, {"error": error}, [(b"www-authenticate", b"Bearer")])

    def _host_refusal(self, scope: Any) -> tuple[int, dict[str, str]] | None:
        """Why the requested host name is refused; None if it is not."""
        given = _all(scope, b"host")
        shown = b", ".join(given).decode("latin-1")
        found = _HOST.fullmatch(given[0]) if len(given) == 1 else None
        if given and (found is None or int(found[2] or 0) > 65535):
            return 400, {"error": f"the Host header {shown!r} is malformed"}
        if self._is_local and not given:
            return 400, {"error": "the request has no Host header: ask for this server as localhost"}
        if self._is_local and (found is None or not is_local(found[1].decode())):
            return 421, {"error": f"this is no server of {shown!r}: ask for it as localhost"}
        return None

    def _is_let_in(self, scope: Any) -> bool:
        if self._token is None or scope["path"] in FREE or (self._login is not None and scope["path"] in _OF_LOGIN):
            return True
        for value in _all(scope, b"authorization"):
            kind, _, token = value.partition(b" ")
            if kind.lower() == b"bearer" and hmac.compare_digest(_digest(token.strip()), self._token):
                return True
        return any(hmac.compare_digest(_digest(one), _digest(self._session)) for one in self._cookies(scope))

    def _cookies(self, scope: Any) -> Iterable[bytes]:
        pairs = (pair.strip().partition(b"=") for value in _all(scope, b"cookie") for pair in value.split(b";"))
        return [value for name, _, value in pairs if name == self._cookie(scope)]

    def _cookie(self, scope: Any) -> bytes:
        """The name of the cookie: browsers share cookies between all ports of a machine."""
        return b"penstock-%d" % (scope["server"][1] or 0)

    async def _log_in(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            body = await asyncio.wait_for(_body(receive), _FORM_SECONDS)
        except TimeoutError:
            body = b""
        [token] = parse_qs(body.decode("latin-1")).get("token", [""])[:1]
        if self._token is None or not hmac.compare_digest(_digest(token.strip().encode()), self._token):
            await asyncio.sleep(_WRONG_SECONDS)
            await self._show_login(send, b'<p class="trouble" role="alert">That is not the token.</p>')
            return
        cookie = self._cookie(scope) + b"=" + self._session + b"; Path=/; HttpOnly; SameSite=Strict"
        await _answer(send, 303, {}, [(b"location", b"/"), (b"set-cookie", cookie), (b"cache-control", b"no-store")])

    async def _show_login(self, send: Any, said: bytes) -> None:
        assert self._login is not None
        headers = [
            (b"content-type", b"text/html; charset=utf-8"),
            (b"content-security-policy", _LOGIN_POLICY),
            (b"cache-control", b"no-store"),
            (b"referrer-policy", b"no-referrer"),
            (b"www-authenticate", b"Bearer"),
        ]
        await _send(send, 401, headers, self._login.replace(b"<!-- said -->", said))


def _digest(data: bytes) -> bytes:
    """A digest of fixed length, so that a comparison reveals nothing about the other value."""
    return hashlib.sha256(data).digest()


def _all(scope: Any, name: bytes) -> list[bytes]:
    return [value for key, value in scope["headers"] if key == name]


async def _body(receive: Any) -> bytes:
    """The beginning of a request's body, which is a short form."""
    found = b""
    while len(found) < _LONGEST_FORM:
        message = await receive()
        found += message.get("body", b"")
        if not message.get("more_body"):
            break
    return found[:_LONGEST_FORM]


def _with_nosniff(send: Callable[[Any], Any]) -> Callable[[Any], Any]:
    async def sent(message: Any) -> None:
        if message["type"] == "http.response.start":
            headers = [one for one in message.get("headers", ()) if one[0].lower() != b"x-content-type-options"]
            message = {**message, "headers": [*headers, (b"x-content-type-options", b"nosniff")]}
        await send(message)

    return sent


async def _answer(send: Any, status: int, content: Any, headers: Iterable[Header] = ()) -> None:
    await _send(send, status, [(b"content-type", b"application/json"), *headers], as_json(content))


async def _send(send: Any, status: int, headers: list[Header], body: bytes) -> None:
    headers = [*headers, (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
