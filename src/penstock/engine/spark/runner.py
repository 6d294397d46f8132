"""Stages as Spark jobs over a kept graph of slots.

The graph is a union of one-partition RDDs, one for each slot. Spark keeps its Python processes apart by the
environment of the function they run; each RDD is made under an environment of its own, so that a slot always meets
its own process, with its databases open. On a cluster each is located at an executor; when executors come or go all
slots close, and the graph is made anew on those that are there. Where Spark starts a slot elsewhere all the same, the
process that was the slot before is ended (``SlotLock``).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import msgspec

from penstock.engine.attempt import LostWorkError
from penstock.engine.restores import Restores, Watch
from penstock.engine.spark.slot import SlotOrder, obey
from penstock.engine.work import StageWork, TaskDone
from penstock.errors import SparkLostError
from penstock.storage import Storage

_PROPERTY = "penstock.order"

_ENVIRONMENT = {
    # numpy and Arrow work in arrays of some hundred kilobytes: without this glibc maps and unmaps each of them
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(512 << 20),
    # there are as many slots as cores
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}


class SparkRunner:
    """Runs stages on the executors of a Spark session.

    Args:
        spark: the session.
        program: what slots need to know, as ``shipping`` packs it.
        widest: how many tasks the widest sub-topology has.
        storage: the checkpoint, in which slots tell how restores go on.
        restores: hears of it.
        slots: how many slots there are; by default as many as cores, and no more than there are partitions.
    """

    def __init__(
        self,
        spark: Any,
        program: bytes,
        widest: int,
        application_id: str,
        storage: Storage,
        restores: Restores,
        slots: int | None = None,
    ):
        self._context = spark.sparkContext
        self._application_id = application_id
        self.slots = slots or min(self._context.defaultParallelism, widest)
        self._run = f"{application_id}-{os.urandom(6).hex()}"
        self._program = self._context.broadcast(program)
        self._storage, self._restores = storage, restores
        self._open_tasks: set[str] = set()
        """The tasks that have been at work in the slots there are."""
        self._homes: list[str] = []
        self._graph: Any = None

    def run(self, stage: StageWork, label: str) -> list[TaskDone]:
        """Run all tasks of a stage.

        Raises:
            LostWorkError: a slot's process or its executor is gone, or failed in a way it could not tell.
            SparkLostError: Spark itself is gone.
        """
        try:
            graph, tasks = self._current_graph(), {work.task for work in stage.tasks}
            if tasks <= self._open_tasks:
                return self._order(graph, stage, label)
            with Watch(self._storage, self._run, self._restores):
                done = self._order(graph, stage, label)
            self._open_tasks |= tasks
            return done
        except Exception as error:
            if not is_alive(self._context):
                raise spark_lost(self._application_id) from error
            self._graph = None
            self._open_tasks.clear()
            raise LostWorkError(_first_lines(error)) from error

    def close(self) -> None:
        """Have all slots let go of their state."""
        if is_alive(self._context):
            self._close_slots()
            self._program.unpersist()

    def _close_slots(self) -> None:
        try:
            if self._graph is not None:
                self._order(self._graph, None, f"penstock {self._application_id}: close")
        except Exception:  # slots that are gone have let go already
            pass
        self._graph = None
        self._open_tasks.clear()

    def _order(self, graph: Any, stage: StageWork | None, label: str) -> list[TaskDone]:
        order = msgspec.json.encode(SlotOrder(self._run, stage, self.slots)).decode()
        before = self._context.getLocalProperty("spark.job.description")
        self._context.setLocalProperty(_PROPERTY, order)
        self._context.setLocalProperty("spark.job.description", label)
        try:
            answers = graph.collect()
        finally:
            self._context.setLocalProperty(_PROPERTY, None)
            self._context.setLocalProperty("spark.job.description", before)
        return [done for answer in answers for done in msgspec.json.decode(answer, type=list[TaskDone])]

    # --- the graph -----------------------------------------------------------------------------------------------

    def _current_graph(self) -> Any:
        homes = live_executors(self._context)
        if homes != self._homes:
            self._close_slots()  # those that are to live elsewhere now hold databases that others will open
            self._homes = homes
        if self._graph is None:
            self._graph = self._context.union([self._slot(slot) for slot in range(self.slots)])
        return self._graph

    def _slot(self, slot: int) -> Any:
        """The RDD of one slot."""
        context = self._context
        own = {**_ENVIRONMENT, "PENSTOCK_SLOT": f"{self._application_id}-{slot}"}
        before = {name: context.environment.get(name) for name in own}
        context.environment.update(own)
        try:
            rdd = self._located(slot).mapPartitions(_obeying(self._program))
            rdd._jrdd  # noqa: B018 - takes the environment as it is now
            return rdd
        finally:
            for name, value in before.items():
                if value is None:
                    context.environment.pop(name)
                else:
                    context.environment[name] = value

    def _located(self, slot: int) -> Any:
        """One partition that holds the slot's number, at the slot's executor if there are several."""
        from pyspark.rdd import RDD
        from pyspark.serializers import CPickleSerializer

        context = self._context
        if not self._homes:
            return context.parallelize([slot], 1)
        home = self._homes[slot % len(self._homes)]
        jvm, gateway = context._jvm, context._gateway
        places = jvm.java.util.ArrayList()
        places.add(home)
        data = bytearray(CPickleSerializer().dumps(slot))
        scala_places = jvm.org.apache.spark.api.python.PythonUtils.toSeq(places)
        pair = jvm.scala.Tuple2(data, scala_places)
        pairs = jvm.java.util.ArrayList()
        pairs.add(pair)
        tag = jvm.scala.reflect.ClassTag.apply(gateway.jvm.java.lang.Class.forName("[B"))
        rdd = context._jsc.sc().makeRDD(jvm.org.apache.spark.api.python.PythonUtils.toSeq(pairs), tag)
        return RDD(rdd.toJavaRDD(), context, CPickleSerializer())


def _obeying(program: Any) -> Any:
    """The function of a slot's RDD; it is sent with every job, so it holds no more than a reference to the program."""

    def run(numbers: Iterator[int]) -> list[bytes]:
        from pyspark import TaskContext

        (slot,) = list(numbers)
        context = TaskContext.get()
        assert context is not None
        order = context.getLocalProperty(_PROPERTY)
        assert order is not None
        return [obey(slot, order, program)]

    return run


def is_alive(context: Any) -> bool:
    """Whether Spark still answers."""
    try:
        return not context._jsc.sc().isStopped()
    except Exception:  # what py4j raises without a JVM is of many kinds
        return False


def spark_lost(application_id: str) -> SparkLostError:
    return SparkLostError(
        f"application {application_id!r} stopped because Spark is gone: its JVM was killed, ran out of memory, or its "
        "session was stopped. Everything committed is safe; start again, and the application goes on where it was"
    )


def live_executors(context: Any) -> list[str]:
    """Where the executors are, as Spark locates work at them; empty where the driver is the only one."""
    if context.master.startswith("local[") or context.master == "local":
        return []
    statuses = context._jsc.sc().env().blockManager().master().getMemoryStatus()
    ids = statuses.keysIterator()
    homes = []
    while ids.hasNext():
        id_ = ids.next()
        if id_.executorId() != "driver":
            homes.append((id_.executorId(), f"executor_{id_.host()}_{id_.executorId()}"))
    return [home for _, home in sorted(homes)]


def _first_lines(error: Exception) -> str:
    """What went wrong, without the stack of the JVM."""
    lines = [line for line in str(error).splitlines() if line.strip() and not line.lstrip().startswith("at ")]
    return " / ".join(lines[:4])[:600] or type(error).__name__
