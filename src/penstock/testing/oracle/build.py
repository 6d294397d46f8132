"""Builds a case's topology, with the public DSL alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock import (
    BufferConfig,
    Deduplicated,
    EmitStrategy,
    JoinWindows,
    Materialized,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
    UnlimitedWindows,
)
from penstock.dsl.windowed import windowed_key
from penstock.serdes import INT, STR, Serde
from penstock.testing.oracle import functions as fn
from penstock.testing.oracle.described import DESCRIBED, sides_joined, sides_of
from penstock.testing.oracle.functions import CaseError, Spec
from penstock.testing.oracle.processors import (
    FixedProcessor,
    FixedTransformer,
    FixedValuesProcessor,
    result_type,
    store_builder,
)

_TYPES: dict[str, Serde] = {"string": STR, "long": INT}


class MissingOperator(Exception):
    """The case names an operator that does not exist yet."""


@dataclass(frozen=True)
class Step:
    """The result of a step."""

    it: Any
    key: Serde
    value: Serde
    windows: Any = None


class Build:
    """Builds the topology of one case.

    Args:
        in_front: declares steps in front of those of the case.

    Attributes:
        inputs: the types of the input topics.
        outputs: the types of the output topics.
        stores: the names of the stores that the case names.
        shapes: the shapes of the stores that the case adds, by name.
    """

    def __init__(self, case: Spec, in_front: Callable[[StreamsBuilder], None] | None = None):
        self.builder = StreamsBuilder()
        if in_front is not None:
            in_front(self.builder)
        self.steps: dict[str, Step] = {}
        self.inputs: dict[str, tuple[Serde, Serde]] = {}
        self.outputs: dict[str, tuple[Serde, Serde]] = {}
        self.stores: list[str] = []
        self.shapes: dict[str, str] = {}
        self._topology: Topology | None = None
        self._has_steps = any(spec["op"] in ("stream", "table") for spec in case["topology"])
        missing = missing_operators(case)
        if missing:
            raise MissingOperator(", ".join(sorted(missing)))
        for spec in case["topology"]:
            step = _OPERATORS[spec["op"]](self, spec)
            if step is not None:
                self.steps[spec["id"]] = step

    def topology(self) -> Topology:
        """Return the topology, to which steps by hand are added."""
        if self._topology is None:
            self._topology = self.builder.build() if self._has_steps else Topology()
        return self._topology

    # --- helpers -------------------------------------------------------------------------------------------------

    def _of(self, spec: Spec, field: str = "of") -> Step:
        if spec.get(field) not in self.steps:
            raise CaseError(f"no step {spec.get(field)!r} for {spec}")
        return self.steps[spec[field]]

    def _materialized(self, spec: Spec, always: bool) -> Materialized | None:
        """Return the store's options from the case; aggregations always get a ``Materialized``, named or not."""
        given = spec.get("materialized")
        if given is None:
            return Materialized(caching=False) if always else None
        if "store" in given:
            self.stores.append(given["store"])
        if given.get("kind") in DESCRIBED:
            described = Materialized.as_(DESCRIBED[given["kind"]](given))
            return described if given.get("caching") else described.with_caching_disabled()
        return Materialized(
            store=given.get("store"),
            kind=given.get("kind", "persistent"),
            retention_ms=given.get("retention_ms"),
            caching=given.get("caching", False),
        )

    # --- operators -----------------------------------------------------------------------------------------------

    def _types(self, spec: Spec) -> tuple[Serde, Serde]:
        types = _TYPES[spec.get("key_type", "string")], _TYPES[spec.get("value_type", "string")]
        self.inputs[spec["topic"]] = types
        return types

    def stream(self, spec: Spec) -> Step:
        key, value = self._types(spec)
        return Step(self.builder.stream(spec["topic"], key=key, value=value), key, value)

    def table(self, spec: Spec) -> Step:
        key, value = self._types(spec)
        materialized = self._materialized(spec, always=False)
        return Step(self.builder.table(spec["topic"], key=key, value=value, materialized=materialized), key, value)

    def filter(self, spec: Spec) -> Step:
        of = self._of(spec)
        method = getattr(of.it, spec["op"])
        options = {} if _is_stream(of) else {"materialized": self._materialized(spec, always=False)}
        return Step(method(fn.predicate(spec["predicate"]), **options), of.key, of.value)

    def map(self, spec: Spec) -> Step:
        of = self._of(spec)
        call, key, value = fn.pair_mapper(spec["mapper"], of.key, of.value)
        return Step(of.it.map(call, key=key, value=value), key, value)

    def map_values(self, spec: Spec) -> Step:
        of = self._of(spec)
        call, value = fn.mapper(spec["mapper"], of.key, of.value)
        options = {} if _is_stream(of) else {"materialized": self._materialized(spec, always=False)}
        return Step(of.it.map_values(call, value=value, **options), of.key, value)

    def flat_map(self, spec: Spec) -> Step:
        of = self._of(spec)
        call, key, value = fn.flat_mapper(spec["mapper"], of.key, of.value)
        return Step(of.it.flat_map(call, key=key, value=value), key, value)

    def flat_map_values(self, spec: Spec) -> Step:
        of = self._of(spec)
        call, value = fn.flat_value_mapper(spec["mapper"], of.value)
        return Step(of.it.flat_map_values(call, value=value), of.key, value)

    def select_key(self, spec: Spec) -> Step:
        of = self._of(spec)
        call, key = fn.mapper(spec["mapper"], of.key, of.value)
        return Step(of.it.select_key(call, key=key), key, of.value)

    def merge(self, spec: Spec) -> Step:
        of = self._of(spec)
        return Step(of.it.merge(self._of(spec, "with").it), of.key, of.value)

    def split(self, spec: Spec) -> None:
        of = self._of(spec)
        branched = of.it.split(name=f"{spec['id']}-")
        for branch in spec["branches"]:
            branched = branched.branch(fn.predicate(branch["when"]), name=branch["name"])
        default = spec.get("default_branch")
        streams = branched.default_branch(name=default) if default is not None else branched.no_default_branch()
        for name, stream in streams.items():
            self.steps[f"{spec['id']}.{name.removeprefix(spec['id'] + '-')}"] = Step(stream, of.key, of.value)

    def repartition(self, spec: Spec) -> Step:
        of = self._of(spec)
        return Step(of.it.repartition(name=spec.get("name")), of.key, of.value)

    def to(self, spec: Spec) -> None:
        of = self._of(spec)
        of.it.to(spec["topic"], key=of.key, value=of.value)
        if self.outputs.setdefault(spec["topic"], (of.key, of.value)) != (of.key, of.value):
            raise CaseError(f"two types in topic {spec['topic']}")

    def deduplicate(self, spec: Spec) -> Step:
        of = self._of(spec)
        arguments: list[Any] = [spec["interval_ms"]]
        if "id_selector" in spec:
            call, id_ = fn.mapper(spec["id_selector"], of.key, of.value)
            arguments = [call, *arguments, Deduplicated.key_serde(id_)]
        return Step(getattr(of.it, spec["op"])(*arguments), of.key, of.value)

    def to_table(self, spec: Spec) -> Step:
        of = self._of(spec)
        return Step(of.it.to_table(materialized=self._materialized(spec, always=True)), of.key, of.value)

    def to_stream(self, spec: Spec) -> Step:
        of = self._of(spec)
        if "mapper" not in spec:
            return Step(of.it.to_stream(), of.key, of.value)
        call, key = fn.mapper(spec["mapper"], of.key, of.value)
        return Step(of.it.to_stream(call, key=key), key, of.value)

    def group_by_key(self, spec: Spec) -> Step:
        of = self._of(spec)
        return Step(of.it.group_by_key(name=spec.get("name")), of.key, of.value)

    def group_by(self, spec: Spec) -> Step:
        of = self._of(spec)
        if _is_stream(of):
            call, key = fn.mapper(spec["mapper"], of.key, of.value)
            return Step(of.it.group_by(call, key=key, name=spec.get("name")), key, of.value)
        pair, key, value = fn.pair_mapper(spec["mapper"], of.key, of.value)
        return Step(of.it.group_by(pair, key=key, value=value, name=spec.get("name")), key, value)

    def windowed_by(self, spec: Spec) -> Step:
        of = self._of(spec)
        windows = _WINDOWS[spec["windows"]["type"]](spec["windows"])
        return Step(of.it.windowed_by(windows), of.key, of.value, windows)

    def global_table(self, spec: Spec) -> Step:
        key, value = self._types(spec)
        materialized = self._materialized(spec, always=False)
        table = self.builder.global_table(spec["topic"], key=key, value=value, materialized=materialized)
        return Step(table, key, value)

    def join(self, spec: Spec) -> Step:
        of, other = self._of(spec), self._of(spec, "with")
        call, value = fn.joiner(spec["joiner"], of.value, other.value)
        if _is_stream(of):
            if "windows" not in spec:
                return self._join_stream(spec, of, other, call, value)
            windows = _join_windows(spec["windows"])
            joined = sides_joined(spec)
            if "tells_stores" in spec:
                self.stores += sides_of(spec)
            stream = getattr(of.it, spec["op"])(other.it, call, windows, joined, value=value)
            return Step(stream, of.key, value)
        by_foreign_key = "foreign_key_extractor" in spec
        options: dict[str, Any] = {"materialized": self._materialized(spec, always=by_foreign_key)}
        if by_foreign_key:
            options["foreign_key"] = fn.mapper(spec["foreign_key_extractor"], of.key, of.value).call
        return Step(getattr(of.it, spec["op"])(other.it, call, value=value, **options), of.key, value)

    def _join_stream(self, spec: Spec, of: Step, other: Step, call: Any, value: Serde) -> Step:
        options: Spec = {"value": value, "name": spec.get("name")}
        if "key_mapper" in spec:
            options["key_selector"], _ = fn.mapper(spec["key_mapper"], of.key, of.value)
        if "grace_ms" in spec:
            options["grace"] = spec["grace_ms"]
        return Step(getattr(of.it, spec["op"])(other.it, call, **options), of.key, value)

    def suppress(self, spec: Spec) -> Step:
        of = self._of(spec)
        buffer = _buffer_config(spec.get("buffer_config") or {})
        if spec["until"] == "window_closes":
            suppressed = Suppressed.until_window_closes(buffer)  # type: ignore[arg-type]
        else:
            suppressed = Suppressed.until_time_limit(spec["time_ms"], buffer)
        if "name" in spec:
            suppressed = suppressed.with_name(spec["name"])
        return Step(of.it.suppress(suppressed), of.key, of.value)

    def emit_strategy(self, spec: Spec) -> Step:
        of = self._of(spec)
        return Step(of.it.emit_strategy(getattr(EmitStrategy, spec["strategy"])()), of.key, of.value, of.windows)

    def count(self, spec: Spec) -> Step:
        of = self._of(spec)
        return Step(of.it.count(materialized=self._materialized(spec, always=True)), _result_key(of), INT)

    def reduce(self, spec: Spec) -> Step:
        of = self._of(spec)
        names = ["adder", "subtractor"] if "adder" in spec else ["reducer"]
        reducers = [fn.reducer(spec[name]) for name in names]
        table = of.it.reduce(*reducers, materialized=self._materialized(spec, always=True))
        return Step(table, _result_key(of), of.value)

    def distinct(self, spec: Spec) -> Step:
        of = self._of(spec)
        table = of.it.distinct(materialized=self._materialized(spec, always=True))
        return Step(table, _result_key(of), of.value)

    def cogroup(self, spec: Spec) -> Step:
        first, *others = spec["streams"]
        of = self._of(first)
        cogrouped = of.it.cogroup(fn.aggregator(first["aggregator"]))
        for other in others:
            cogrouped = cogrouped.cogroup(self._of(other).it, fn.aggregator(other["aggregator"]))
        return Step(cogrouped, of.key, of.value)

    def aggregate(self, spec: Spec) -> Step:
        of = self._of(spec)
        initial, value = spec["initializer"]["value"], fn.literal_type(spec["initializer"])
        names = ["adder", "subtractor"] if "adder" in spec else ["aggregator"]
        aggregators = [fn.aggregator(spec[name]) for name in names if name in spec]
        if "merger" in spec:
            aggregators.append(fn.merger(spec["merger"]))
        materialized = self._materialized(spec, always=True)
        table = of.it.aggregate(lambda: initial, *aggregators, value=value, materialized=materialized)
        return Step(table, _result_key(of), value)

    # --- processors ----------------------------------------------------------------------------------------------

    def add_store(self, spec: Spec) -> None:
        types = _TYPES[spec.get("key_type", "string")], _TYPES[spec.get("value_type", "string")]
        builder = store_builder(spec, *types)
        self.stores.append(spec["store"])
        self.shapes[spec["store"]] = spec["shape"]
        if "by_hand" in spec:
            self.topology().add_state_store(builder, *spec["by_hand"])
        else:
            self.builder.add_state_store(builder)

    def _processor(self, spec: Spec, kind: type[FixedProcessor] = FixedProcessor) -> Callable[[], FixedProcessor]:
        return lambda: kind(spec["processor"], self.shapes)

    def process(self, spec: Spec) -> Step:
        of, value = self._of(spec), result_type(spec["processor"], self._of(spec).value)
        options: Spec = {"value": value, "name": spec.get("name")}
        if spec["op"] == "process":
            stream = of.it.process(self._processor(spec), *spec.get("stores", ()), key=of.key, **options)
        else:
            supplier = self._processor(spec, FixedValuesProcessor)
            stream = of.it.process_values(supplier, *spec.get("stores", ()), **options)
        return Step(stream, of.key, value)

    def transform_values(self, spec: Spec) -> Step:
        of, materialized = self._of(spec), self._materialized(spec, always=False)
        stores, supplier = spec.get("stores", ()), lambda: FixedTransformer(spec["transformer"])
        return Step(of.it.transform_values(supplier, *stores, value=STR, materialized=materialized), of.key, STR)

    def add_source(self, spec: Spec) -> Step:
        key, value = self._types(spec)
        self.topology().add_source(spec["id"], spec["topic"], key=key, value=value)
        return Step(None, key, value)

    def add_processor(self, spec: Spec) -> Step:
        of = self.steps[spec["of"][0]]
        value = result_type(spec["processor"], of.value)
        self.topology().add_processor(spec["id"], self._processor(spec), *spec["of"], key=of.key, value=value)
        if "stores" in spec:
            self.topology().connect_processor_and_state_stores(spec["id"], *spec["stores"])
        return Step(None, of.key, value)

    def add_sink(self, spec: Spec) -> None:
        of = self.steps[spec["of"][0]]
        self.topology().add_sink(spec["id"], spec["topic"], *spec["of"], key=of.key, value=of.value)
        self.outputs[spec["topic"]] = (of.key, of.value)


def existing_operators() -> set[str]:
    """Return the operators that cases may name."""
    return set(_OPERATORS)


def missing_operators(case: Spec) -> set[str]:
    """Return the operators, windows and kinds of stores that a case names and that do not exist."""
    missing = set()
    kinds: dict[str, str] = {}
    for spec in case["topology"]:
        if spec["op"] not in _OPERATORS:
            missing.add(spec["op"])
        kinds[spec["id"]] = kind = _kind(spec, kinds)
        if spec["op"] in _JOINS:
            sides = f"{kind}-{kinds.get(spec['with'].split('.')[0])}"
            if "foreign_key_extractor" in spec:
                sides = f"{sides} by foreign key"
            if sides not in _JOINABLE:
                missing.add(f"{sides} {spec['op']}")
        windows = spec.get("windows", {}).get("type")
        if windows is not None and windows not in (*_WINDOWS, "JoinWindows"):
            missing.add(windows)
        kind = (spec.get("materialized") or {}).get("kind", "persistent")
        if kind not in ("persistent", "in_memory", *DESCRIBED):
            missing.add(f"{kind} stores")
    return missing


def _kind(spec: Spec, kinds: dict[str, str]) -> str:
    """Return whether a step results in a stream or in a table."""
    op = spec["op"]
    if op in ("table", "to_table", "count", "reduce", "aggregate"):
        return "table"
    if op in ("stream", "to_stream", "add_processor"):
        return "stream"
    of = spec.get("of", "")
    return "global table" if op == "global_table" else kinds.get(str(of).partition(".")[0], "stream")


def _is_stream(step: Step) -> bool:
    return hasattr(step.it, "flat_map")


def _result_key(of: Step) -> Serde:
    """Return the type of the keys of an aggregation's result."""
    if of.windows is None:
        return of.key
    return windowed_key(of.key, of.windows)


def _time_windows(spec: Spec) -> TimeWindows:
    windows = TimeWindows.of_size_and_grace(spec["size_ms"], spec.get("grace_ms", 0))
    return windows.advance_by(spec["advance_ms"]) if "advance_ms" in spec else windows


def _join_windows(spec: Spec) -> JoinWindows:
    windows = JoinWindows.of_time_difference_and_grace(spec["time_difference_ms"], spec.get("grace_ms", 0))
    if "before_ms" in spec:
        windows = windows.before(spec["before_ms"])
    return windows.after(spec["after_ms"]) if "after_ms" in spec else windows


def _buffer_config(spec: Spec) -> BufferConfig:
    config = BufferConfig.unbounded() if not {"max_records", "max_bytes"} & set(spec) else BufferConfig()
    if "max_records" in spec:
        config = config.with_max_records(spec["max_records"])
    if "max_bytes" in spec:
        config = config.with_max_bytes(spec["max_bytes"])
    if "when_full" in spec:
        return config.shut_down_when_full() if spec["when_full"] == "shut_down" else config.emit_early_when_full()
    return config if config == BufferConfig.unbounded() else config.emit_early_when_full()


def _session_windows(spec: Spec) -> SessionWindows:
    return SessionWindows.of_inactivity_gap_and_grace(spec["inactivity_gap_ms"], spec.get("grace_ms", 0))


def _unlimited_windows(spec: Spec) -> UnlimitedWindows:
    return UnlimitedWindows.of().start_on(spec.get("start_ms", 0))


def _sliding_windows(spec: Spec) -> SlidingWindows:
    return SlidingWindows.of_time_difference_and_grace(spec["time_difference_ms"], spec.get("grace_ms", 0))


_WINDOWS: dict[str, Callable[[Spec], Any]] = {
    "SlidingWindows": _sliding_windows,
    "TimeWindows": _time_windows,
    "SessionWindows": _session_windows,
    "UnlimitedWindows": _unlimited_windows,
}

_JOINS = ("join", "left_join", "outer_join")
_JOINABLE = {"stream-stream", "table-table", "table-table by foreign key", "stream-table", "stream-global table"}
"""The possible kinds of joins."""

_OPERATORS: dict[str, Callable[[Build, Spec], Step | None]] = {
    "stream": Build.stream,
    "table": Build.table,
    "global_table": Build.global_table,
    "filter": Build.filter,
    "filter_not": Build.filter,
    "map": Build.map,
    "map_values": Build.map_values,
    "flat_map": Build.flat_map,
    "flat_map_values": Build.flat_map_values,
    "select_key": Build.select_key,
    "merge": Build.merge,
    "split": Build.split,
    "repartition": Build.repartition,
    "deduplicate_by_key": Build.deduplicate,
    "deduplicate_by_key_value": Build.deduplicate,
    "deduplicate": Build.deduplicate,
    "to": Build.to,
    "to_table": Build.to_table,
    "to_stream": Build.to_stream,
    "group_by_key": Build.group_by_key,
    "group_by": Build.group_by,
    "windowed_by": Build.windowed_by,
    "join": Build.join,
    "left_join": Build.join,
    "outer_join": Build.join,
    "emit_strategy": Build.emit_strategy,
    "suppress": Build.suppress,
    "count": Build.count,
    "reduce": Build.reduce,
    "aggregate": Build.aggregate,
    "cogroup": Build.cogroup,
    "distinct": Build.distinct,
    "add_store": Build.add_store,
    "process": Build.process,
    "process_values": Build.process,
    "transform_values": Build.transform_values,
    "add_source": Build.add_source,
    "add_processor": Build.add_processor,
    "add_sink": Build.add_sink,
}
