"""docs/kafka-streams-api.md: no public class, method or setting of Kafka Streams 4.4 is missing without a word (KS-20).

``kafka_streams_api.json`` has all of them, as ``javap -public`` lists the classes of kafka-streams and
kafka-streams-test-utils outside of ``internals``, and ``StreamsConfig.configDef().names()`` the settings; what every
Java object or enum has (``equals``, ``valueOf``, ...) is left out, and so are the constants of ``StreamsConfig``.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

import penstock
import penstock.serdes
import penstock.testing
from penstock.engine.running.streams import Streams
from penstock.settings import Settings
from penstock.usage.java_names import snake_case

pytestmark = pytest.mark.kip("KS-20")

RECORDED = json.loads((Path(__file__).parent / "kafka_streams_api.json").read_text())
CLASSES: dict[str, list[str]] = RECORDED["classes"]
PAGE = (Path(__file__).parents[1] / "docs" / "kafka-streams-api.md").read_text()
ROWS = [row.split("|") for row in PAGE.splitlines() if row.startswith("| `")]
NAMED = [name for row in ROWS for name in re.findall(r"`([^`]+)`", row[1])]
"""All that the first column of the tables names."""
MEMBERS = {f"{cls}.{method}" for cls, methods in CLASSES.items() for method in methods}


def class_of(java: str) -> Any:
    """Penstock's class of the same name."""
    simple = re.split(r"[.$]", java)[-1]
    if java == "KafkaStreams":
        return Streams
    for module in (penstock, penstock.testing, penstock.serdes):
        if simple in module.__all__:
            return getattr(module, simple)
    return None


def has(cls: Any, method: str) -> bool:
    """Whether a class has a method in Python's spelling, or an attribute in place of a getter."""
    name = snake_case(method)
    made = inspect.unwrap(cls.__init__)
    source = inspect.getsource(made) if inspect.isfunction(made) and made.__code__.co_filename != "<string>" else ""
    fields = {*getattr(cls, "__dataclass_fields__", ()), *getattr(cls, "__annotations__", ())}
    fields |= set(re.findall(r"self\.(\w+)(?::.*)? = ", source))
    is_getter = name.startswith("is_") and not callable(getattr(cls, name[3:], None))
    spelled = (name, f"{name}_", method, name.removeprefix("get_"), *([name[3:]] if is_getter else ()))
    return any(one in fields or hasattr(cls, one) for one in spelled)


def missing() -> Iterator[str]:
    """What is neither here nor in the tables."""
    for java, methods in CLASSES.items():
        if any(fnmatchcase(java, name) for name in NAMED):
            continue
        cls = class_of(java)
        if cls is None:
            yield java
            continue
        absent = [f"{java}.{method}" for method in methods if not has(cls, method)]
        yield from (one for one in absent if not any(fnmatchcase(one, name) for name in NAMED))


def test_no_class_and_no_method_is_missing_without_a_word():
    assert list(missing()) == [], "build it, or say in docs/kafka-streams-api.md what stands in its place, or why not"


def test_no_setting_is_missing_without_a_word():
    ours = set(Settings.__annotations__)
    absent = [name for name in RECORDED["configs"] if name.replace(".", "_") not in ours]
    assert [name for name in absent if not any(fnmatchcase(name, one) for one in NAMED)] == []


def test_the_tables_name_only_what_kafka_streams_has():
    known = {*CLASSES, *MEMBERS, *RECORDED["configs"]}
    assert [name for name in NAMED if not any(fnmatchcase(one, name) for one in known)] == []


def test_the_tables_do_not_name_what_is_here():
    whole = {name for name in NAMED if name in CLASSES and class_of(name) is not None}
    assert whole == {
        "KafkaStreams$CloseOptions",
        "KafkaStreams",
        "Topology$AutoOffsetReset",
        "kstream.Suppressed$BufferConfig",
        "processor.MockProcessorContext",
        "processor.ProcessorContext",
        "processor.StandbyUpdateListener$SuspendReason",
    }, "these have others of the same name, or another name here"
    methods = [name.rpartition(".") for name in NAMED if name in MEMBERS]
    found = {f"{java}.{method}" for java, _, method in methods if class_of(java) and has(class_of(java), method)}
    assert found == set()


@pytest.mark.parametrize("row", [row for row in ROWS if len(row) > 2], ids=lambda row: row[1].strip()[:40])
def test_what_the_tables_name_in_its_place_exists(row: list[str]):
    for text in re.findall(r"`([^`]+)`", row[2]):
        for name, method in re.findall(r"\b([A-Z]\w+)\.(\w+)", text):
            cls = Streams if name == "Streams" else class_of(name)
            assert cls is not None, name
            assert has(cls, method), f"{name}.{method}"


def test_the_recorded_classes_are_all_there():
    assert RECORDED["version"] == "4.4.0"
    assert (len(CLASSES), len(MEMBERS), len(RECORDED["configs"])) == (275, 1092, 79)
