"""Wraps the processors of a topology: the setting ``processor_wrapper_class`` (KIP-1112)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from penstock.plan.node import Node, StoreSpec
from penstock.plan.nodes import GlobalStore, Process, ProcessValues
from penstock.plan.processors import ProcessorFunction, checked_builder, own_stores, processor_function
from penstock.processor import ProcessorSupplier
from penstock.processor_wrapper import ProcessorWrapper


class _Given(ProcessorSupplier):
    """The supplier of a step, as a wrapper gets it."""

    def __init__(self, function: ProcessorFunction):
        self._function = function

    def get(self) -> Any:
        return self._function.make()

    def stores(self) -> Sequence[Any]:
        return ()  # they are in the topology already


class Wrapping:
    """Wraps processors, and collects the stores that their wrappers bring along.

    Args:
        wrapper: the user's wrapper.
    """

    def __init__(self, wrapper: ProcessorWrapper):
        self._wrapper = wrapper
        self._builders: dict[str, Any] = {}
        self.stores: dict[str, StoreSpec] = {}

    def changes(self, step: Node) -> dict[str, Any]:
        """The fields of a step that are wrapped; empty for a step without a processor."""
        if not isinstance(step, Process | GlobalStore):
            return {}
        keeps_keys = isinstance(step, ProcessValues)
        method = "wrap_fixed_key_processor_supplier" if keeps_keys else "wrap_processor_supplier"
        given = _Given(step.supplier)
        wrapped = getattr(self._wrapper, method)(step.name, given)
        if wrapped is given:
            return {}
        what = f"{type(self._wrapper).__name__}.{method}, for {step.name} at {step.where}"
        found: dict[str, Any] = {"supplier": replace(step.supplier, make=processor_function(wrapped, what).make)}
        if own := own_stores(wrapped):
            specs = [checked_builder(builder, self._builders, what) for builder in own]
            self.stores |= {spec.name: spec for spec in specs}
            if isinstance(step, Process):
                found["store_names"] = list(dict.fromkeys([*step.store_names, *(spec.name for spec in specs)]))
        return found
