"""Suggests the right name of a setting that does not exist, such as one of Kafka Streams."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.messages import nearest

_OF_KAFKA = {
    "bootstrap_servers": "log, such as 'kafka://host:9092'",
    "num_stream_threads": "slots of start(...), and --slots of penstock run",
    "num_standby_replicas": "standby_replicas",
    "commit_interval_ms": "commit_interval, in milliseconds or as text such as '1 s'",
    "cache_max_bytes_buffering": "statestore_cache_max_bytes",
    "max_task_idle_ms": "max_task_idle, in milliseconds or as text such as '1 s'",
    "schema_registry_url": "schema_registry",
}
"""Settings of Kafka Streams that have another name here."""


def meant(name: str, known: Iterable[str]) -> str:
    """Return what to write instead of an unknown setting.

    >>> meant("buffer_size", ["chunk_rows", "input_buffer_max_bytes", "log_dir"])
    '; similar ones are input_buffer_max_bytes. `penstock config` lists all'
    """
    spelled = name.replace(".", "_")
    if spelled in _OF_KAFKA:
        return f": here it is {_OF_KAFKA[spelled]}"
    if spelled in known:
        return f" (did you mean {spelled!r}?)"
    if guess := nearest(spelled, known):
        return guess
    similar = [one for one in known if {*one.split("_")} & {*spelled.split("_")}][:3]
    return (f"; similar ones are {', '.join(similar)}. " if similar else "; ") + "`penstock config` lists all"
