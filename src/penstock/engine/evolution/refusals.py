"""Refuses topologies with which state would be lost, mixed or decoded wrongly, and names the way out of each."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.engine.evolution.matching import Matches, differences, fits, is_alike
from penstock.engine.shared.description import NO_HEADERS, Description
from penstock.engine.shared.layout import TaskId
from penstock.engine.shared.manifest import Manifest
from penstock.errors import ConfigError


def check(
    old: Description, new: Description, matches: Matches, newest: Manifest, application_id: str, where: str
) -> None:
    """Raise ``ConfigError`` when a topology would mix or lose data that the application has stored."""
    if not newest.tasks:
        return
    _check_partitions(old, new, matches, newest, application_id)
    wrong = [
        *_other_partitions(old, new, matches),
        *_changed(old, new, matches),
        *_gone(old, new, matches),
        *_left_waiting(new, matches, newest),
        *_waiting_in_other_types(old, new, matches, newest),
        *_written_in_other_types(old, new),
    ]
    if wrong:
        lines = "\n".join(f"- {line}" for line in wrong)
        raise ConfigError(
            f"the topology no longer fits what application {application_id!r} has kept in {where}:\n{lines}\n"
            "Nothing was started, and nothing is lost. To keep this state, put back the stores and topics named here. "
            'Or say how they changed: rename={"old": "new"} gives the rows another name, drop=["store"] drops them '
            "(penstock run --rename old=new --drop store). To process the topics again with this topology, start it "
            "over with penstock reset, or start it under another application id"
        )


def _check_partitions(
    old: Description, new: Description, matches: Matches, newest: Manifest, application_id: str
) -> None:
    """Raise ``ConfigError`` when topics of the log have other partition counts; all others follow from these."""
    changed = {now: before for before, now in matches.topics.items() if old.topics[before] != new.topics[now]}
    told = {now: before for now, before in changed.items() if before in newest.topics}
    if not told:
        return
    said = [
        f"topic {now!r} had {old.topics[before]} partitions and has {new.topics[now]} now"
        for now, before in sorted(told.items())
    ]
    count = max(new.topics[now] for now in told)
    raise ConfigError(
        f"{'; '.join(said)}: `penstock rescale {application_id} --partitions {count}` moves the state of application "
        f"{application_id!r} to where its keys are now. `penstock reset {application_id}` has it begin again without "
        "it. Nothing was started, and nothing is lost"
    )


def _other_partitions(old: Description, new: Description, matches: Matches) -> Iterator[str]:
    for before, now in sorted(matches.topics.items()):
        if old.topics[before] != new.topics[now]:
            yield (
                f"topic {now!r} had {old.topics[before]} partitions and has {new.topics[now]} now; state is kept by "
                "partition and cannot follow"
            )


def _changed(old: Description, new: Description, matches: Matches) -> Iterator[str]:
    for name, now_name in sorted(matches.stores.items()):
        before, now = old.stores[name], new.stores[now_name]
        told = [_told(fact, before.facts.get(fact, NO_HEADERS), now.facts[fact]) for fact in differences(before, now)]
        if told:
            called = f"store {name!r}" if name == now_name else f"store {name!r}, now {now_name!r}"
            yield f"{called}: {', '.join(told)}; drop=[{name!r}] has it begin empty"
        elif before.is_own and (name, before.tasks) != (now_name, now.tasks):
            yield (
                f"store {name!r} is one that you bring, in sub-topology {before.tasks}; it would be {now_name!r} in "
                f"sub-topology {now.tasks}, where its files are not. Keep its name, and declare new steps behind it"
            )


def _told(fact: str, before: str, now: str) -> str:
    of_step = f"; {fact}=Any at its step, with Any of typing, keeps the JSON" if before == "json" else ""
    return f"{fact} was {before} and is {now} now{of_step if fact in ('key', 'value') else ''}"


def _gone(old: Description, new: Description, matches: Matches) -> Iterator[str]:
    added = {name: kept for name, kept in new.stores.items() if name not in matches.stores.values()}
    for name in sorted(old.stores.keys() - matches.stores.keys() - matches.dropped):
        kept = old.stores[name]
        alike = [other for other, candidate in added.items() if fits(kept, candidate)]
        line = f"store {name!r} ({kept.facts['rows']}) no longer exists"
        if alike and kept.named_by_user:
            line += (
                f", and {alike[0]!r} is new and would begin empty: was it renamed? rename={{{name!r}: {alike[0]!r}}}"
            )
        elif alike:
            line += (
                f", and {' and '.join(map(repr, alike))} would begin empty: which of them it is cannot be told. Say it "
                f"with rename={{{name!r}: {alike[0]!r}}}, or give it the name it had (store={name!r})"
            )
        else:
            line += f": drop=[{name!r}] drops it"
        yield line


def _left_waiting(new: Description, matches: Matches, newest: Manifest) -> Iterator[str]:
    told = set()
    for task, topics in newest.waiting.items():
        for topic in topics:
            now = matches.topics.get(topic, "")
            if new.readers.get(now) is None and topic not in told and topic not in matches.dropped:
                told.add(topic)
                yield (
                    f"records wait in the repartition topic {topic!r}, which nothing reads now; let the previous "
                    f"topology process them first (its task {TaskId.parse(task)} has them), or drop them with "
                    f"drop=[{topic!r}]"
                )


def _waiting_in_other_types(old: Description, new: Description, matches: Matches, newest: Manifest) -> Iterator[str]:
    for topic in sorted({topic for topics in newest.waiting.values() for topic in topics}):
        now = matches.topics.get(topic, "")
        types = (new.types or {}).get(now)
        before = new.types_before.get(now) if old.types is None else old.types.get(topic)
        if types is None or before is None:
            continue
        if told := _differences(before, types):
            yield f"records wait in the repartition topic {topic!r}: {told}"


def _written_in_other_types(old: Description, new: Description) -> Iterator[str]:
    """Yield output topics without declared types that release 0.1.0 wrote with other ones.

    Only where the log does not hold the types, as in Kafka.
    """
    if old.types is not None:
        return
    for topic, before in new.outputs_before.items():
        if told := _differences(before, new.outputs[topic]):
            yield f"topic {topic!r}: {told}; to change it, say the new type in the same way"


def _differences(before: tuple[str, str], now: tuple[str, str]) -> str:
    pairs = zip(("key", "value"), before, now, strict=True)
    return ", ".join(_told(fact, was, is_) for fact, was, is_ in pairs if not is_alike(fact, was, is_))
