"""Wrapping all processors of a program (KIP-1112)."""

from __future__ import annotations

from typing import Any

from penstock.processor import ProcessorSupplier


class ProcessorWrapper:
    """Wraps all processors of a program, for example to log, to check, or to add stores (KIP-1112).

    Give the class as the setting ``processor_wrapper_class``. It wraps the program's own processors (``process``,
    ``process_values``, ``add_processor``, global stores). The other steps of the DSL have no processors, because they
    work on columns.

    >>> from penstock import StreamsBuilder
    >>> from penstock.testing import TopologyTestDriver
    >>> class Counting(ProcessorWrapper):
    ...     def wrap_processor_supplier(self, processor_name, supplier):
    ...         def made():
    ...             processor = supplier.get()
    ...             processor.init = lambda context, init=processor.init: (
    ...                 context.metrics.add_sensor(processor_name).add("made-total").record(), init(context))[1]
    ...             return processor
    ...         return made
    >>> builder = StreamsBuilder()
    >>> builder.stream("in").process(lambda record, context: context.forward(record)).to("out")
    >>> driver = TopologyTestDriver(builder.build(), processor_wrapper_class=Counting)
    >>> driver.pipe_input("in", "a", 1)
    >>> sum(figure for metric, figure in driver.metrics().items() if metric.name == "made-total")
    1
    """

    def configure(self, configs: dict[str, Any]) -> None:
        """Called once, with the settings of the application."""

    def wrap_processor_supplier(self, processor_name: str, supplier: ProcessorSupplier) -> Any:
        """Return the supplier of a step's processors: the given one, or one that wraps its processors.

        The stores of the supplier that is returned are added to the topology, and connected with the step.
        """
        return supplier

    def wrap_fixed_key_processor_supplier(self, processor_name: str, supplier: ProcessorSupplier) -> Any:
        """The same for processors that keep keys (``process_values``)."""
        return supplier
