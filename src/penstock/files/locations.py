"""Checks every path and URL from users in one place, for all arguments, settings and options.

A folder is a path, or ``file:///path``. Topics are in a folder or in Kafka, commits in a folder or an object store, and
the progress of a Spark query wherever Spark can write. Everything else is refused under the name of its argument: no
URL ever becomes a folder called ``s3:``.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import unquote

from penstock.errors import ConfigError
from penstock.values.masking import masked

KAFKA = "kafka"
_SLASHED = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
"""A URL, also one that lost a slash in a ``Path``."""
_KNOWN = re.compile(
    r"(kafka|file|https?|ftp|s3[an]?|gc?s|az|azure|adls?|abfss?|wasbs?|o3fs|ofs|oss|hdfs|webhdfs|viewfs|dbfs|memory):",
    re.I,
)
_STORES = ("s3", "s3a", "gs", "az", "adl", "azure", "abfs", "abfss")
_STORE_HOSTS = re.compile(
    r"https://[^/?#]*\.(amazonaws\.com|blob\.core\.windows\.net|dfs\.core\.windows\.net|r2\.cloudflarestorage\.com)([/?#]|$)"
)
_BROKER = re.compile(r"[A-Za-z0-9.-]+:\d{4,5}(,[A-Za-z0-9.-]+:\d{4,5})*")
_OF_WINDOWS = re.compile(r"[A-Za-z]:[\\/]")
_AS_LOG = "Topics are in a folder, or in Kafka: kafka://host:9092"


def scheme_of(where: object) -> str | None:
    """Return the scheme of a URL in lower case; None for a path.

    >>> scheme_of("S3://bucket/app"), scheme_of(Path("kafka://host:9092")), scheme_of("folder/2024-01-01T10:30")
    ('s3', 'kafka', None)
    """
    found = _SLASHED.match(str(where)) or _KNOWN.match(str(where))
    return found[1].lower() if found else None


def folder(where: object, argument: str, hint: str = "") -> Path:
    """Return the folder: a path, or ``file:///path``.

    Args:
        where: the user's value.
        argument: its name, for the message.
        hint: where the user may use such a URL.

    Raises:
        ConfigError: it is a URL of something else.

    >>> folder("file:///data/my%20app", "state_dir")
    PosixPath('/data/my app')
    """
    scheme = scheme_of(_text(where, argument))
    if scheme is None:
        return Path(str(where))
    if scheme == "file":
        return _folder_of_url(where, argument)
    raise ConfigError(f"{argument}: {_shown(where)} is not a path on this machine.{f' {hint}' if hint else ''}")


def log_place(where: object, argument: str = "log") -> Path | str:
    """Return the place of topics: a folder, or ``kafka://host:port`` as text.

    Raises:
        ConfigError: it is a URL of something else, or the address of a broker without ``kafka://``.

    >>> log_place("kafka://localhost:9092"), log_place("topics")
    ('kafka://localhost:9092', PosixPath('topics'))
    """
    if scheme_of(_text(where, argument)) != KAFKA:
        if _BROKER.fullmatch(str(where)) and not os.path.exists(str(where)):
            raise ConfigError(
                f"{argument}: {_shown(where)} looks like a Kafka broker. Write it as {f'{KAFKA}://{where}'!r}; for a "
                f"folder of this name, write {f'./{where}'!r}"
            )
        return folder(where, argument, _AS_LOG)
    if not isinstance(where, str) or not where[: len(KAFKA) + 3].lower() == f"{KAFKA}://":
        raise ConfigError(f"{argument}: {_shown(where)} is not a Kafka cluster. Write it as text: 'kafka://host:9092'")
    return KAFKA + where[len(KAFKA) :]


def checkpoint_place(where: object, argument: str = "checkpoint") -> str:
    """Return the place of commits: a folder, or the URL of an object store.

    Raises:
        ConfigError: it is a URL of something else.

    >>> checkpoint_place("s3://bucket/app"), checkpoint_place(Path("state"))
    ('s3://bucket/app', 'state')
    """
    text = _text(where, argument)
    scheme = scheme_of(text)
    if scheme == "file":
        found = _folder_of_url(where, argument)
        return text if "://" in text else str(found)
    if scheme is None or (scheme in _STORES and "://" in text) or _STORE_HOSTS.match(text):
        return text
    raise ConfigError(
        f"{argument}: {_shown(where)} is neither a folder nor an object store. Write it like s3://bucket/app, "
        "gs://bucket/app, az://container/app or /folder"
        + (", as text: a Path cannot hold a URL" if isinstance(where, os.PathLike) else "")
    )


def spark_path(where: object, argument: str = "checkpoint") -> str:
    """Return a place for Spark's files: a URL unchanged, for any file system that Spark has; a path as an absolute one.

    Raises:
        ConfigError: Spark cannot write there, or a ``Path`` holds a URL.

    >>> spark_path("hdfs://name/checkpoints/q"), spark_path("/data/../q")
    ('hdfs://name/checkpoints/q', '/q')
    """
    text = _text(where, argument)
    scheme = scheme_of(text)
    if scheme is None:
        return str(Path(text).resolve())
    if scheme == "file":
        _folder_of_url(where, argument)
    elif isinstance(where, os.PathLike):
        raise ConfigError(
            f"{argument}: {_shown(where)} lost a slash, because a Path cannot hold a URL. Give it as text"
        )
    if scheme in (KAFKA, "http", "https", "ftp", "memory"):
        raise ConfigError(
            f"{argument}: Spark cannot keep its progress in {_shown(where)}. Give a folder, or a URL of a file system "
            "that Spark can write, such as s3a://bucket/folder or hdfs://host/folder"
        )
    return text


def _text(where: object, argument: str) -> str:
    if not isinstance(where, str | os.PathLike) or not str(where):
        raise ConfigError(f"{argument} takes a path or a URL, got {where!r}")
    text = os.fsdecode(where)
    if "\0" in text:
        raise ConfigError(f"{argument}: {_shown(where)} has a zero byte in it, and no path has one; remove it")
    if text != text.strip():
        raise ConfigError(f"{argument}: {_shown(where)} begins or ends with a blank. Write it without")
    if os.name != "nt" and _OF_WINDOWS.match(text):
        raise ConfigError(
            f"{argument}: {_shown(where)} is a path of Windows, and would be a folder of that name here. "
            "Give a path of this machine"
        )
    if text == "~" or text.startswith("~/"):
        raise ConfigError(
            f"{argument}: only a shell takes ~ for the home folder. Write {_shown(os.path.expanduser(text))}"
        )
    return text


def _folder_of_url(url: object, argument: str) -> Path:
    if isinstance(url, os.PathLike):
        raise ConfigError(f"{argument}: {_shown(url)} lost a slash: a Path cannot hold a URL. Give it as text")
    path = str(url)[len("file:") :]
    if path.startswith("//"):
        host, slash, rest = path[2:].partition("/")
        path = slash + rest if host in ("", "localhost") else ""
    if not path.startswith("/") or "?" in path or "#" in path:
        raise ConfigError(f"{argument}: {_shown(url)} is not a path on this machine. Write it like file:///folder")
    return Path(unquote(path))


def _shown(where: object) -> str:
    return repr(masked(str(where)))
