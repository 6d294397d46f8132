"""The content of an application's page: one picture of its topology, and figures for each commit."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from typing import Any

import msgspec

from penstock.engine.shared.manifest import Manifest
from penstock.engine.shared.picture import DrawnPart, Picture
from penstock.engine.shared.places import Places
from penstock.engine.shared.starts import Start
from penstock.errors import ConfigError
from penstock.figures.losses import Loss, losses_of, together
from penstock.figures.metrics import PROCESSED, STATE_BYTES, STATE_ROWS, Metric, Rates, figures_of, readable
from penstock.log.base import Log
from penstock.query.application import ApplicationStores
from penstock.query.health import HealthCheck
from penstock.watch.held import held_by, stream_times
from penstock.watch.history import History
from penstock.watch.letters import Letters
from penstock.watch.samples import SPANS, Samples
from penstock.watch.topics import TopicLook, offsets_of

_FRESH_SECONDS = 0.4
"""How long figures are reused: requests of many pages are answered from one computation."""

_SHARE = 50
"""A computation takes at most one in so many parts of the time, however many tasks and steps there are: the page may be
shown by the process that makes the commits."""

_COMMITS = 120
_HELD = "suppression-buffer-count-current"


class Application:
    """The visible side of an application.

    Args:
        stores: its committed stores.
        log: the log with its topics; None if unknown.
        health: determines its health, if shared with others; by default its own.
    """

    def __init__(self, stores: ApplicationStores, log: Log | None = None, health: HealthCheck | None = None):
        self._stores = stores
        self._topics = TopicLook(log)
        self._letters = Letters(self._topics)
        self._health = health or HealthCheck(stores, log)
        self._lock = threading.Lock()
        self._start: tuple[str, Start] | None = None
        self._history: History | None = None
        self._samples = Samples()
        self._looked = float("-inf")
        self._fresh = _FRESH_SECONDS
        self._figures: dict[str, Any] = {}
        self._rates: Rates | None = None
        self._metrics: tuple[int, float, dict[Metric, float]] | None = None

    # --- the picture ---------------------------------------------------------------------------------------------

    def start(self, manifest: Manifest) -> Start:
        """The start to which this commit belongs; raises ``ConfigError`` if none was recorded."""
        if self._start is None or self._start[0] != manifest.start:
            start = self._stores.commits.start_of(manifest)
            if start is None or start.picture is None:
                raise ConfigError(
                    "the checkpoint does not describe the topology: an earlier version wrote it. Start the application "
                    "once with this version"
                )
            self._start = manifest.start, start
            self._history = None
        return self._start[1]

    def picture(self) -> dict[str, Any]:
        """The topology, and the types of its stores."""
        newest = self._stores.commits.newest()
        start = self.start(newest)
        shapes = self._stores.commits.shapes(newest).values()
        stores = {one.name: msgspec.to_builtins(one.format, enc_hook=str) for one in shapes}
        drawn = msgspec.to_builtins(start.picture)
        return {"application": start.application_id, "start": newest.start, "stores": stores, **drawn}

    def commit(self) -> dict[str, int]:
        """The number of the newest commit, by the application's id."""
        newest = self._stores.commits.newest()
        return {self.start(newest).application_id: newest.commit}

    def metrics(self) -> dict[Metric, float]:
        """All figures by their Kafka names, as of the newest commit; rates since the first request, over half a minute
        at most."""
        now, known = time.monotonic(), self._metrics
        if known is not None and now - known[1] < _FRESH_SECONDS and self._stores.commits.is_newest(known[0]):
            return known[2]
        newest = self._stores.commits.newest()
        start = self.start(newest)
        figures = figures_of(newest.metrics, newest.observed, start.recording_level)
        given = start.application_id, start.recording_level
        with self._lock:
            self._rates = self._rates or Rates(figures)
            self._rates.after(lambda: figures)
            found = readable(figures, *given) | self._rates.readable(figures, *given)
        self._metrics = newest.commit, now, found
        return found

    def stalled_seconds(self) -> float:
        """How long records have waited without progress."""
        return self._health.look().stalled_seconds

    def topics(self) -> list[str]:
        """The topics that the application reads and writes, its dead letters included, without its internal ones."""
        picture = self._picture()
        every = (topic for sub in picture.subs for part in sub.parts for topic in part.topics)
        return [topic for topic in dict.fromkeys((*every, *picture.dead_letters)) if topic not in picture.internal]

    def _picture(self) -> Picture:
        picture = self.start(self._stores.commits.newest()).picture
        assert picture is not None
        return picture

    # --- figures -------------------------------------------------------------------------------------------------

    def figures(self) -> dict[str, Any]:
        """All figures, as of the newest commit; computed a few times a second at most."""
        with self._lock:
            if time.monotonic() - self._looked > self._fresh:
                began = time.thread_time()
                self._figures = self._look()
                self._looked = time.monotonic()
                self._fresh = max(_FRESH_SECONDS, _SHARE * (time.thread_time() - began))
            return self._figures

    def _look(self) -> dict[str, Any]:
        newest = self._stores.commits.newest()
        start = self.start(newest)
        picture = start.picture
        assert picture is not None
        parts = [part for sub in picture.subs for part in sub.parts]
        read = {topic for part in parts if part.kind == "source" for topic in part.topics} - set(picture.internal)
        history = self._history
        if history is None:
            ends = {part.name for part in parts if part.kind == "sink"} or {p.name for p in parts if p.kind == "source"}
            history = self._history = History(self._stores.commits, frozenset(read), frozenset(ends))
        history.note(newest)
        rate, rates = history.rates()
        sizes, now = _sizes(newest), int(time.time() * 1000)
        offsets = offsets_of(newest, sorted(read))
        topics = {topic: {"read": sum(at.values()), **self._topics.lag(topic, at)} for topic, at in offsets.items()}
        losses = together(losses_of(newest.metrics).values())
        lags = [sum(one["lag"]) for one in topics.values() if "lag" in one]
        latency = history.latency()
        lag = sum(lags) if len(lags) == len(topics) else None
        self._samples.add(now, rate, lag, latency, sum(one["bytes"] for one in sizes.values()))
        return {
            "application": start.application_id,
            "start": newest.start,
            "commit": newest.commit,
            "at": newest.at,
            "now": now,
            "started_at": start.at,
            "tasks": picture.tasks,
            "places": _places(newest),
            "rate": rate,
            "latency": latency,
            "nodes": _nodes(newest, parts, rates, losses),
            "stores": sizes,
            "topics": topics,
            "waiting": _waiting(newest),
            "children": self._children(picture),
            "losses": [{**loss.to_dict(), "done": loss.done, "why": loss.why} for loss in losses],
            "commits": history.commits(_COMMITS),
        }

    def _children(self, picture: Picture) -> list[dict[str, Any]]:
        """The queries of DataFrames and tables, where the topology has some."""
        if not picture.has_outside:
            return []
        return [{**msgspec.to_builtins(one), "says": one.says} for one in self._stores.commits.children()]

    def history(self, span: str) -> dict[str, Any]:
        """Rate, lag, latency and state over time: the last ten minutes, or the last day, see :class:`Samples`; raises
        ``ConfigError`` for other spans."""
        if span not in SPANS:
            raise ConfigError(f"span is one of {', '.join(SPANS)}; got {span!r}")
        with self._lock:
            return self._samples.series(span)

    def letters(self, limit: int) -> dict[str, Any]:
        """The newest dead letters, the newest first; no topic where the application has none."""
        letters = self._picture().dead_letters
        if not letters:
            return {"topic": None, "records": 0, "rows": []}
        return self._letters.newest(letters[0], limit)

    def held(self, node: str, limit: int) -> dict[str, Any]:
        """The entries that a step holds back, see :func:`held_by`; raises ``ConfigError`` if it is no such step."""
        newest = self._stores.commits.newest()
        parts = [part for sub in self._picture().subs for part in sub.parts]
        part = next((one for one in parts if one.name == node), None)
        if part is None or part.holds is None:
            raise ConfigError(
                f"there is no step {node!r} that holds anything back; `penstock topology` names the steps"
            )
        return held_by(self._stores.store(part.holds.store), part, newest, limit)

    def newest(self, topic: str, limit: int) -> dict[str, Any]:
        """The newest records of a topic that the application reads or writes; raises ``ConfigError`` for others."""
        if topic not in self.topics():
            raise ConfigError(f"the application has no topic {topic!r}; it has {', '.join(self.topics())}")
        return self._topics.newest(topic, limit)


def _nodes(
    manifest: Manifest, parts: list[DrawnPart], rates: dict[str, float], losses: Iterable[Loss]
) -> dict[str, dict[str, Any]]:
    """The figures of each step."""
    found: dict[str, dict[str, Any]] = {}
    counted: dict[str, int] = {}
    for label, figure in manifest.observed.items():
        _, name, _, metric = label.split("|")
        if metric == PROCESSED:
            counted[name] = counted.get(name, 0) + figure
    drops: dict[str, dict[str, int]] = {}
    for loss in losses:
        drops.setdefault(loss.node, {})[loss.reason] = loss.records
    held: dict[str, int] = {}
    for label, figure in manifest.metrics.items():
        if label.endswith(_HELD):
            store = label.split("|", 2)[1]
            held[store] = held.get(store, 0) + figure
    every = stream_times(manifest)
    for part in parts:
        times = next((every[name] for name in (part.name, *part.stores) if name in every), [])
        one: dict[str, Any] = {"records": counted.get(part.name, 0), "rate": round(rates.get(part.name, 0.0), 2)}
        if times:
            one["stream_time"] = [min(times), max(times)]
        if part.name in drops:
            one["drops"] = drops[part.name]
        if part.holds is not None and part.holds.store in held:
            one["held"] = held[part.holds.store]
        found[part.name] = one
    return found


def _places(manifest: Manifest) -> dict[str, Any]:
    """The places of slots, and the number of tasks that have moved."""
    found: dict[str, Any] = msgspec.to_builtins(manifest.places or Places())
    return {"slots": [], "moved": 0, "moved_total": 0} | found


def _sizes(manifest: Manifest) -> dict[str, dict[str, int]]:
    """The approximate rows and bytes of each store."""
    found: dict[str, dict[str, int]] = {}
    for label, figure in manifest.observed.items():
        _, store, _, name = label.split("|")
        if name in (STATE_ROWS, STATE_BYTES):
            sizes = found.setdefault(store, {"rows": 0, "bytes": 0})
            sizes["rows" if name == STATE_ROWS else "bytes"] += figure
    return found


def _waiting(manifest: Manifest) -> dict[str, int]:
    """Records in repartition topics that tasks have not taken yet."""
    found: dict[str, int] = {}
    for topics in manifest.waiting.values():
        for topic, refs in topics.items():
            found[topic] = found.get(topic, 0) + sum(ref.records for ref in refs)
    return found
