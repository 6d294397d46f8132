"""Matches stores and repartition topics of the previous topology with those of the new one.

A thing that the user named is matched by its name. A thing with a generated name is matched by its position: among
those with equal positions, first by the steps in front of it, then by name. Ambiguous things stay unmatched.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from penstock.engine.shared.description import HEADERS, KEPT, KEPT_IN_SESSIONS, NO_HEADERS, Description, Kept
from penstock.engine.shared.traces import Trace
from penstock.errors import ConfigError
from penstock.plan.names import is_generated


@dataclass
class Matches:
    """The new names of stores and topics, by their previous names."""

    stores: dict[str, str] = field(default_factory=dict)
    topics: dict[str, str] = field(default_factory=dict)
    """Of all topics that are read, including repartition topics."""
    dropped: set[str] = field(default_factory=set)
    """Stores and topics that are dropped."""


@dataclass(frozen=True)
class Wishes:
    """The user's instructions for a changed topology.

    Attributes:
        rename: the new names of stores and repartition topics, by the old ones.
        drop: the stores and topics to drop.
    """

    rename: Mapping[str, str] = field(default_factory=dict)
    drop: frozenset[str] = frozenset()

    @classmethod
    def of(cls, rename: Mapping[str, str] | None = None, drop: Iterable[str] = ()) -> Wishes:
        """Return the instructions that a start's arguments give.

        Raises:
            ConfigError: they have a wrong type, or contradict each other.
        """
        rename = {} if rename is None else rename
        if not isinstance(rename, Mapping) or not all(isinstance(n, str) for pair in rename.items() for n in pair):
            raise ConfigError(f'rename maps old names to new ones, as in {{"old": "new"}}; got {rename!r}')
        is_list = isinstance(drop, Iterable) and not isinstance(drop, str)
        names = tuple(drop) if is_list else ()
        if not is_list or not all(isinstance(name, str) for name in names):
            raise ConfigError(f'drop is a list of names, as in ["store"]; got {drop!r}')
        twice = [name for name in rename.values() if list(rename.values()).count(name) > 1]
        if twice:
            raise ConfigError(f"rename gives two stores the name {twice[0]!r}; give each a name of its own")
        if both := sorted(set(rename) & set(names)):
            raise ConfigError(f"{both[0]!r} is both renamed and dropped; say one of them")
        return cls(dict(rename), frozenset(names))


NO_WISHES = Wishes()


def matches_of(old: Description, new: Description, wishes: Wishes) -> Matches:
    """Match two topologies.

    Raises:
        ConfigError: a name to rename or to drop does not exist.
    """
    _check_names(old, new, wishes)
    found = Matches()
    for name in wishes.drop:
        if name in old.stores:
            now = new.stores.get(name)
            if now is None or not fits(old.stores[name], now):  # repeated at later starts, it changes nothing
                found.dropped.add(name)
        elif name in old.topics and name not in new.topics:
            found.dropped.add(name)
    found.stores = _stores(old, new, wishes, found.dropped)
    found.topics = _topics(old, new, wishes, found)
    return found


def fits(before: Kept, now: Kept) -> bool:
    """Return whether both topologies read a store's rows the same way."""
    return not differences(before, now)


def differences(before: Kept, now: Kept) -> list[str]:
    """Return the facts in which two stores differ."""
    if begins_headers_in_sessions(before, now) and not (before.is_own or now.is_own):
        now = msgspec.structs.replace(now, facts=now.facts | {HEADERS: NO_HEADERS})
    facts = {HEADERS: NO_HEADERS, **before.facts}  # earlier starts do not tell of headers
    return [fact for fact, value in facts.items() if not is_alike(fact, value, now.facts.get(fact, value))]


def begins_headers_in_sessions(before: Kept, now: Kept) -> bool:
    """Return whether a session store begins to keep headers, so that all of its rows have to be written again."""
    return (before.facts.get(HEADERS, NO_HEADERS), now.facts.get(HEADERS)) == (NO_HEADERS, KEPT_IN_SESSIONS)


def is_alike(fact: str, before: str, now: str) -> bool:
    """Return whether a fact is the same. Untyped JSON may become a type's JSON; a row that does not fit raises
    later. A store may begin to keep headers (KIP-1271).
    """
    if (fact, before, now) == (HEADERS, NO_HEADERS, KEPT):
        return True
    return before == now or (fact in ("key", "value") and before == "json" and now.startswith("json["))


def _check_names(old: Description, new: Description, wishes: Wishes) -> None:
    for before, now in wishes.rename.items():
        is_done = before not in old.stores and before not in old.topics and now in {**old.stores, **old.topics}
        if now not in new.stores and now not in new.topics:
            raise ConfigError(
                f"{before!r} cannot be renamed to {now!r}: the topology has no store or repartition topic of that "
                f"name. It has {_listed({**new.stores, **new.internal})}; nothing was changed"
            )
        if not is_done and before not in old.stores and before not in old.internal:
            raise ConfigError(
                f"{before!r} cannot be renamed: the application has kept no store or repartition topic of that name. "
                f"It has {_listed({**old.stores, **old.internal})}; nothing was changed"
            )
    for name in wishes.drop - old.stores.keys() - old.topics.keys():
        if name in new.stores:
            raise ConfigError(f"{name!r} cannot be dropped: the application has kept no store of that name")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def _stores(old: Description, new: Description, wishes: Wishes, dropped: set[str]) -> dict[str, str]:
    found = {name: now for name, now in wishes.rename.items() if name in old.stores and now in new.stores}
    taken = set(found.values())
    before = {name: kept for name, kept in old.stores.items() if name not in found and name not in dropped}
    now = {name: kept for name, kept in new.stores.items() if name not in taken}
    found |= {name: name for name, kept in before.items() if kept.named_by_user and name in now}
    found |= _by_place(
        {name: _place(kept) for name, kept in before.items() if not kept.named_by_user},
        {name: _place(kept) for name, kept in now.items() if not kept.named_by_user},
    )
    return found


def _topics(old: Description, new: Description, wishes: Wishes, found: Matches) -> dict[str, str]:
    suffix = "-repartition"
    topics = {name: now for name, now in wishes.rename.items() if name in old.topics and now in new.topics}
    for name, now in found.stores.items():  # many are named after the store behind them
        if name + suffix in old.internal and now + suffix in new.internal:
            topics.setdefault(name + suffix, now + suffix)
    taken = set(topics.values())
    before = {name for name in old.topics if name not in topics and name not in found.dropped}
    now_there = {name for name in new.topics if name not in taken}
    topics |= {name: name for name in before & now_there if not (is_generated(name) and name in old.internal)}
    topics |= _by_place(
        {name: trace for name, trace in old.internal.items() if name in before and is_generated(name)},
        {name: trace for name, trace in new.internal.items() if name in now_there and is_generated(name)},
    )
    return topics


def _place(kept: Kept) -> Trace | None:
    """Return the position of a store. Stores in equal positions differ by the types of their rows."""
    facts = "; ".join(f"{name} {fact}" for name, fact in sorted(kept.facts.items()))
    return None if kept.trace is None else Trace(kept.trace.coarse, f"{kept.trace.fine} {facts}")


_Places = Mapping[str, Trace | None]


def _by_place(before: _Places, now: _Places) -> dict[str, str]:
    """Match generated names; ambiguous ones stay unmatched."""
    found: dict[str, str] = {}
    for coarse in dict.fromkeys(trace.coarse for trace in before.values() if trace is not None):
        found |= _in_group(_fine(before, coarse), _fine(now, coarse))
    taken = set(found.values())
    unknown = (name for name, trace in before.items() if trace is None and name not in found)
    return found | {name: name for name in unknown if name in now and name not in taken}


def _fine(places: _Places, coarse: str) -> dict[str, str]:
    """Return the things in one position, in the order of their numbers, with what distinguishes them."""
    alike = {name: trace.fine for name, trace in places.items() if trace is not None and trace.coarse == coarse}
    return dict(sorted(alike.items()))


def _in_group(old: dict[str, str], new: dict[str, str]) -> dict[str, str]:
    """Match things in equal positions."""
    if list(old.values()) == list(new.values()):
        return dict(zip(old, new, strict=True))
    found: dict[str, str] = {}
    for fine in set(old.values()) & set(new.values()):
        olds = [name for name, one in old.items() if one == fine]
        news = [name for name, one in new.items() if one == fine]
        if len(olds) == len(news):
            found |= dict(zip(olds, news, strict=True))
    left = [name for name in old if name not in found]
    if left == [name for name in new if name not in found.values()]:  # nothing moved; functions may have changed
        found |= dict(zip(left, left, strict=True))
    elif len(old) == len(new) == 1:  # a single one on each side
        found |= dict(zip(old, new, strict=True))
    return found
