"""The stages of a batch on Spark: each is a shuffle, a sort, and ``mapInArrow`` with the tasks of a sub-topology."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import Any

from msgspec.json import decode
from pyspark.sql import functions as f

from penstock import errors
from penstock.engine.batch import exchange, frames
from penstock.engine.batch.arguments import Source
from penstock.engine.batch.feed import RowsOf
from penstock.engine.batch.packed import AS_ROWS, BLOCK, as_rows
from penstock.engine.batch.planning import Plan
from penstock.engine.batch.program import CyclicStage, Stage
from penstock.engine.batch.result import BatchResult, told_in
from penstock.engine.batch.rows import ENDED, ERROR, FIGURES, IN_SPARK, SORTED_BY
from penstock.engine.batch.stage import serve
from penstock.engine.shared.work import TaskDone
from penstock.engine.shipping.shipping import dumps
from penstock.engine.spark.private import is_classic
from penstock.errors import ConfigError, PenstockError, ProcessingError
from penstock.plan.physical import SubTopology

_log = logging.getLogger(__name__)

BATCH_BYTES = 4 << 20
"""Most bytes that a stage's task gets from Spark at once; a block more, if it is larger."""


class SparkStages:
    """One run of the stages of a plan."""

    def __init__(self, spark: Any, plan: Plan, sources: dict[str, Source], stores: set[str]):
        self._spark, self._plan, self._sources, self._kept = spark, plan, sources, stores
        self._stages: dict[int, Any] = {}

    def run(self) -> tuple[BatchResult, list[TaskDone]]:
        """Run stage by stage. Return the results, and the tasks' parts of an application's commit.

        Raises:
            PenstockError: an error of a task.
        """
        packed = dumps(self._plan.program)
        figures: list[dict[str, Any]] = []
        done: list[TaskDone] = []
        try:
            for group in self._plan.groups:
                with self._named(group), self._small_batches(), _plain_errors():
                    stage = self._stage(group, packed).persist()
                    self._stages |= {sub.id: stage for sub in group}
                    told = _run(stage)
                    figures += told_in(row for row in told if row["what"] == FIGURES)
                    done += [decode(row["block"], type=TaskDone) for row in told if row["what"] == ENDED]
        except BaseException:
            for stage in self._stages.values():
                stage.unpersist()
            raise
        return BatchResult(self._plan, self._stages, figures, self._kept), done

    @contextmanager
    def _named(self, group: tuple[SubTopology, ...]) -> Iterator[None]:
        """Name the jobs of a stage on Spark's web page."""
        context = getattr(self._spark, "sparkContext", None) if is_classic(self._spark) else None
        if context is None:
            yield
            return
        before = context.getLocalProperty("spark.job.description")
        names = ", ".join(str(sub.id) for sub in group)
        context.setLocalProperty("spark.job.description", f"penstock batch: sub-topology {names}")
        try:
            yield
        finally:
            context.setLocalProperty("spark.job.description", before)

    @contextmanager
    def _small_batches(self) -> Iterator[None]:
        """Let Spark pass few blocks to Python at once: by default 64 MB, of which a worker holds two.

        A limit that is set stays: the user or another batch in the same session has set it.
        """
        conf, name = self._spark.conf, "spark.sql.execution.arrow.maxBytesPerBatch"
        if conf.get(name, None) is not None:
            yield
            return
        conf.set(name, str(BATCH_BYTES))
        try:
            yield
        finally:
            conf.unset(name)

    # --- one stage -----------------------------------------------------------------------------------------------

    def _stage(self, group: tuple[SubTopology, ...], packed: bytes) -> Any:
        """Return the output of a sub-topology, or of several that form a cycle."""
        tasks = max(self._plan.layout.tasks[sub.id] for sub in group)
        is_cycle = self._plan.layout.cycle_of(group[0].id) is not None
        stage: Stage | CyclicStage = self._plan.cyclic(group) if is_cycle else self._plan.stage(group[0])

        def run(batches: Iterator[Any]) -> Iterator[Any]:
            from pyspark import TaskContext

            yield from serve(packed, stage, batches if stage.inputs else iter(()), TaskContext.get().partitionId())
            for _ in batches:  # Spark reuses its worker only when it has read everything
                pass

        _log.info("batch: sub-topology %s, %d tasks", stage.name, tasks)
        if isinstance(stage, CyclicStage):
            rows_of_all = [self._of_cycle(sub, one) for sub, one in zip(group, stage.stages, strict=True)]
            return self._cycle(reduce(_union, rows_of_all), stage.inputs).mapInArrow(run, IN_SPARK)
        if stage.inputs:
            rows = self._packed(stage, tasks) if stage.is_packed else self._sorted(group[0], stage.inputs, tasks)
            return rows.mapInArrow(run, IN_SPARK)
        return self._spark.range(0, tasks, 1, tasks).mapInArrow(run, IN_SPARK)

    def _sorted(self, sub: SubTopology, inputs: Sequence[RowsOf], tasks: int) -> Any:
        """Return the rows of all topics, those of each task in one Spark partition and in order."""
        causes = self._plan.tells_causes(sub)
        is_alone = len(inputs) == 1
        frame = reduce(_union, (self._rows(one, tasks, causes) for one in inputs))
        order = [f.col(name) for name in SORTED_BY if name in frame.columns and not (is_alone and name == "input")]
        moved = exchange.moved(frame, tasks).sortWithinPartitions(*order, *self._places(inputs))
        return _wanted(moved, inputs, ["input"] * (not is_alone) + ["cause"] * causes)

    def _packed(self, stage: Stage, tasks: int) -> Any:
        """Return the blocks of all topics, those of each task in one Spark partition and in order of their starts."""
        columns = ["input"] * (len(stage.inputs) > 1) + list(BLOCK)
        frame = reduce(_union, (self._blocks(one) for one in stage.inputs))
        order = [name for name in SORTED_BY if name in columns]
        return exchange.moved(frame, tasks).sortWithinPartitions(*order).select(*columns)

    def _of_cycle(self, sub: SubTopology, stage: Stage) -> Any:
        """Return the rows for one sub-topology of a cycle."""
        tasks, causes = self._plan.layout.tasks[sub.id], self._plan.tells_causes(sub)
        return reduce(_union, (self._rows(one, 1 if one.is_global else tasks, causes) for one in stage.inputs))

    def _cycle(self, frame: Any, inputs: Sequence[RowsOf]) -> Any:
        """Return the rows of all tasks of a cycle, in one Spark partition and in order of their topics."""
        names = ("input", "partition", *(name for name in SORTED_BY if name != "input"))
        order = [f.col(name) for name in names if name in frame.columns]
        moved = frame.repartition(1).sortWithinPartitions(*order, *self._places(inputs))
        return _wanted(moved, inputs, ["input", "partition", "cause"])

    def _places(self, inputs: Sequence[RowsOf]) -> Iterator[Any]:
        """Yield the sort columns of DataFrames' rows."""
        for one in inputs:
            if one.chosen is not None:
                yield from frames.places(self._sources[one.topic], one)

    def _rows(self, one: RowsOf, tasks: int, causes: bool) -> Any:
        """Return the rows of one topic."""
        plan = self._plan
        if one.topic in self._sources:
            return frames.rows_of(self._sources[one.topic], one, tasks, plan.layout.meetings if causes else None)
        if one.topic in plan.ranges:
            ranges = plan.ranges[one.topic]
            firsts = [plan.first_cause(one.topic, partition) for partition in range(len(ranges))]
            return frames.rows_of_log(self._spark, plan.program.place, one.topic, one, ranges, firsts)
        return self._blocks(one).mapInArrow(as_rows, AS_ROWS).withColumn("input", f.lit(one.number))

    def _blocks(self, one: RowsOf) -> Any:
        """Return what other stages have sent of one topic."""
        writers = [self._stages[id_] for id_ in self._plan.writers(one.topic) if id_ in self._stages]
        sent = [stage.where(f.col("what") == self._plan.numbers[one.topic]) for stage in writers]
        return reduce(_union, sent).select("partition", *BLOCK).withColumn("input", f.lit(one.number))


def _run(stage: Any) -> list[Any]:
    """Run a stage on Spark. Return the messages of its tasks."""
    found: list[Any] = stage.where(f.col("what").isin(FIGURES, ERROR, ENDED)).select("what", "name", "block").collect()
    for row in found:
        if row["what"] == ERROR:
            kind: type[PenstockError] = getattr(errors, row["name"], ProcessingError)
            raise kind(bytes(row["block"]).decode())
    return found


def _wanted(frame: Any, inputs: Sequence[RowsOf], more: Sequence[str]) -> Any:
    """Return the columns that tasks read."""
    names = [
        "clock",
        "timestamp",
        "key",
        "value",
        "old",
        "headers",
        *(name for one in inputs for name in one.columns),
        *more,
    ]
    return frame.select(*(name for name in names if name in frame.columns))


def _union(one: Any, other: Any) -> Any:
    return one.unionByName(other, allowMissingColumns=True)


_OURS = re.compile(r"(?:^|\] )penstock\.errors\.(\w+): (.*?)(?: SQLSTATE: \w+)?$", re.MULTILINE)


@contextmanager
def _plain_errors() -> Iterator[None]:
    """Translate Spark's errors; some rows are evaluated while Spark plans."""
    try:
        yield
    except PenstockError:
        raise
    except Exception as error:
        raise _plainly(error) from error


def _plainly(error: Exception) -> Exception:
    """Return our own error that a Spark worker raised, without the traces around it."""
    said = str(error)
    if "No module named 'penstock'" in said:
        return ConfigError(
            "run_batch: the Python that Spark runs has no Penstock; set PYSPARK_PYTHON to "
            f"{sys.executable} before Spark starts (`penstock doctor` looks at it)"
        )
    found = _OURS.search(said)
    kind = getattr(errors, found[1], None) if found is not None else None
    return error if found is None or kind is None else kind(found[2])
