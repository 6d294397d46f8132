"""All that Penstock uses of PySpark beyond its documented API.

Each function has a test in ``tests/spark/test_private.py`` that fails when PySpark changes what the function relies on.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from socketserver import BaseServer
from typing import Any


def is_classic(spark: Any) -> bool:
    """Return whether a session has its own JVM, and does not belong to Spark Connect."""
    return hasattr(spark, "_jvm") and not is_connect(spark)


def is_connect(spark: Any) -> bool:
    """Return whether it is a session of Spark Connect."""
    return "connect" in type(spark).__module__


def stop_retrying(spark: Any) -> None:
    """Have the client of a Connect session give up the calls that it repeats now, and fail later ones within a second.

    PySpark calls the server once more as the process ends, and would repeat that for ten minutes if it is gone.
    """
    for policy in spark.client.get_retry_policies():
        policy.max_retries = 3
    warnings.filterwarnings("ignore", r"\[RETRIES_EXCEEDED\]", UserWarning)


def active_context() -> Any | None:
    """The Spark context of this process, if there is one; PySpark is not imported for it."""
    context = _loaded("pyspark.core.context", "SparkContext")
    return None if context is None else context._active_spark_context


def gateway() -> Any | None:
    """PySpark's connection to the JVM of this process, if there is one; PySpark is not imported for it."""
    context = _loaded("pyspark.core.context", "SparkContext")
    return None if context is None else context._gateway


def _loaded(module: str, name: str) -> Any | None:
    """Return a name of a module, unless that is not imported; another thread may be importing it just now."""
    return getattr(sys.modules.get(module), name, None)


def launch(options: Mapping[str, str], on_process: Callable[[subprocess.Popen[bytes]], None], **arguments: Any) -> Any:
    """Start a JVM and return PySpark's connection to it.

    Args:
        options: Spark's options.
        on_process: is given the JVM's process while it comes up, since PySpark shows that process only afterwards.
        arguments: further arguments of the process, as ``subprocess.Popen`` has them.

    Raises:
        PySparkRuntimeError: the JVM ended first.
        OSError: Spark's script cannot be run.
    """
    from pyspark import SparkConf, java_gateway

    class Process(subprocess.Popen[bytes]):
        def __init__(self, command: Any, **arguments: Any):
            super().__init__(command, **arguments)
            on_process(self)

    popen, java_gateway.Popen = java_gateway.Popen, Process
    try:
        return java_gateway.launch_gateway(SparkConf(loadDefaults=False).setAll(list(options.items())), arguments)
    finally:
        java_gateway.Popen = popen


def jvm_of(context: Any) -> Any:
    """The classes of the JVM of a context, or of a classic session."""
    return context._jvm


def scala_context(context: Any) -> Any:
    """The ``SparkContext`` of Scala behind a context."""
    return context._jsc.sc()


def tasks_at_once(context: Any) -> int:
    """How many tasks of the default resource profile the executors that are there can run at once."""
    scala = scala_context(context)
    return int(scala.maxNumConcurrentTasks(scala.resourceProfileManager().defaultResourceProfile()))


def running_tasks(context: Any, jobs: Iterable[int]) -> list[tuple[int, str, str]]:
    """The tasks of jobs that run at this moment: the number of each in its stage, its executor and its host. Spark's
    status store lags behind while nothing happens."""
    tracker, scheduler = context.statusTracker(), scala_context(context).taskScheduler()
    stages = [stage for job in map(tracker.getJobInfo, jobs) if job is not None for stage in job.stageIds]
    sets = [scheduler.taskSetManagerForAttempt(stage, 0) for stage in stages]
    found = []
    for infos in (one.get().taskInfos().valuesIterator() for one in sets if one.isDefined()):
        while infos.hasNext():
            task = infos.next()
            if task.running():
                found.append((int(task.index()), str(task.executorId()), str(task.host())))
    return found


def scala_session_state(spark: Any) -> Any:
    """The ``SessionState`` of Scala behind a classic session."""
    return spark._jsparkSession.sessionState()


def accumulators_in_metrics(context: Any, names: Sequence[str]) -> dict[str, Any]:
    """New accumulators of whole numbers, which Spark's metrics show by these names until the context ends."""
    jvm, scala = jvm_of(context), scala_context(context)
    made = {name: scala.longAccumulator(name) for name in names}
    _object(jvm.org.apache.spark.metrics.source, "LongAccumulatorSource").register(
        scala, jvm.PythonUtils.toScalaMap(made)
    )
    return made


def known_session() -> Any | None:
    """The session of this process, if it has made one; Spark SQL is not imported for it."""
    session = _loaded("pyspark.sql.session", "SparkSession")
    return None if session is None else session._instantiatedSession


def query_events(spark: Any) -> Callable[[str, str], None] | None:
    """The function that posts a streaming query's event, by its kind and JSON, to the listeners of a classic session.

    None if the session has not loaded Spark SQL: then it has no listeners, and would take seconds to load it.
    """
    scala = spark._jsparkSession
    state = spark._jvm.java.lang.Class.forName("org.apache.spark.sql.classic.SparkSession").getDeclaredField(
        "sessionState"
    )
    state.setAccessible(True)
    if state.get(scala) is None:
        return None
    manager = scala.streams()
    return lambda kind, event: manager.postListenerEvent(_query_event(spark._jvm, kind, event))


def events_of(context: Any) -> Callable[[str, str], None] | None:
    """The function that posts such an event to the listeners of a context; None if it has only Spark's own."""
    conf = context.getConf()
    if conf.get("spark.eventLog.enabled", "false") != "true" and not conf.get("spark.extraListeners", ""):
        return None
    bus, jvm = scala_context(context).listenerBus(), jvm_of(context)
    return lambda kind, event: bus.post(_query_event(jvm, kind, event))


def _query_event(jvm: Any, kind: str, event: str) -> Any:
    """An event of a streaming query from its JSON; of ``QueryProgressEvent`` from that of the progress."""
    streaming = jvm.org.apache.spark.sql.streaming
    if kind == "QueryProgressEvent":
        progress = _object(streaming, "StreamingQueryProgress").fromJson(event)
        return getattr(streaming, f"StreamingQueryListener${kind}")(progress)
    if kind == "QueryStartedEvent":
        return _object(streaming, f"StreamingQueryListener${kind}").fromJson(event)
    known, uuid, option = json.loads(event), jvm.java.util.UUID.fromString, jvm.scala.Option.apply
    given = uuid(known["id"]), uuid(known["runId"]), option(known["exception"]), option(None)
    return getattr(streaming, f"StreamingQueryListener${kind}")(*given)  # from JSON, null would become a text


def _object(package: Any, name: str) -> Any:
    """An object of Scala."""
    return getattr(getattr(package, f"{name}$"), "MODULE$")


def murmur2(spark: Any, data: Any) -> Any:
    """Kafka's hash of a column of bytes, computed in the JVM of a classic session, by a library that Spark brings."""
    from pyspark.sql import functions as f

    seed = f.lit(-1756908916)  # 0x9747b28c, as Kafka has it
    return _called(
        spark, "org.apache.commons.codec.digest.MurmurHash2", "hash32", "IntegerType", data, f.octet_length(data), seed
    )


def eight_bytes(spark: Any, number: Any) -> Any:
    """A column of ``bigint`` as eight bytes, big endian, computed in the JVM of a classic session."""
    return _called(spark, "org.apache.spark.sql.catalyst.util.NumberConverter", "toBinary", "BinaryType", number)


def _called(spark: Any, owner: str, method: str, kind: str, *columns: Any) -> Any:
    """A column of what a static method of Java returns; null where one of its arguments is."""
    from pyspark.sql import Column

    jvm = spark._jvm
    utils, listed = jvm.org.apache.spark.sql.classic.ExpressionUtils, jvm.PythonUtils.toSeq
    arguments = listed([utils.expression(column._jc) for column in columns])
    returned = getattr(jvm.org.apache.spark.sql.types.DataTypes, kind)
    call = jvm.org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke(
        jvm.java.lang.Class.forName(owner), returned, method, arguments, listed([]), True, True, True,
        jvm.scala.Option.empty(),
    )  # fmt: skip
    return Column(utils.column(call))


def located(context: Any, value: Any, executor: str) -> Any:
    """An RDD of one partition that holds a value, and that Spark prefers to run at an executor."""
    from pyspark.rdd import RDD
    from pyspark.serializers import CPickleSerializer

    jvm, serializer = jvm_of(context), CPickleSerializer()
    listed = jvm.PythonUtils.toSeq
    pair = jvm.scala.Tuple2(bytearray(serializer.dumps(value)), listed([executor]))
    tag = jvm.scala.reflect.ClassTag.apply(jvm.java.lang.Class.forName("[B"))
    return RDD(scala_context(context).makeRDD(listed([pair]), tag).toJavaRDD(), context, serializer)


@contextmanager
def worker_environment(context: Any, own: Mapping[str, str]) -> Iterator[Callable[[Any], Any]]:
    """Have the Python workers of RDDs run with variables of their own, and so apart from all others. Yield the function
    to which each RDD that is made here has to be given."""

    def fixed(rdd: Any) -> Any:
        rdd._jrdd  # noqa: B018 - PySpark reads the environment as it makes this
        return rdd

    environment = context.environment
    before = dict(environment)
    environment.update(own)
    try:
        yield fixed
    finally:
        for name in own:
            environment.pop(name)
        environment.update(before)


def use_python(context: Any, python: str) -> None:
    """Have a context run its workers with this Python."""
    context.pythonExec = python


def end_accumulators(context: Any) -> None:
    """Tell the thread that listens for a context's accumulators to end, without waiting for its next look."""
    server = getattr(context, "_accumulatorServer", None)
    if server is not None:
        server.server_shutdown = True
        threading.Thread(target=BaseServer.shutdown, args=(server,), daemon=True).start()


def plans_with_filters() -> bool:
    """Whether this process is a Python worker in which Spark plans a read and hands over the DataFrame's filters.

    Spark has a worker of its own for that, and runs it only where ``spark.sql.python.filterPushdown.enabled`` is on.
    """
    worker = "pyspark.sql.worker.data_source_pushdown_filters"
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return worker in sys.modules or (spec is not None and spec.name == worker)


class Database:
    """A connection of the driver to a database by JDBC, with Spark's dialect and drivers, in a transaction of its own.

    Args:
        options: Spark's options of a table of it.
    """

    def __init__(self, spark: Any, options: Mapping[str, str]):
        jvm = spark._jvm
        given = jvm.PythonUtils.toScalaMap(dict(options))
        jdbc = jvm.org.apache.spark.sql.execution.datasources.jdbc.JDBCOptions(given)
        self._dialect = jvm.org.apache.spark.sql.jdbc.JdbcDialects.get(options["url"])
        self._connection = self._dialect.createConnectionFactory(jdbc).apply(-1)
        self._connection.setAutoCommit(False)

    def quoted(self, name: str) -> str:
        """A column as the database's SQL names it."""
        return str(self._dialect.quoteIdentifier(name))

    def execute(self, statement: str) -> int:
        """How many rows a statement has changed."""
        statements = self._connection.createStatement()
        try:
            return int(statements.executeUpdate(statement))
        finally:
            statements.close()

    def has_rows(self, query: str) -> bool:
        """Whether a query finds anything."""
        statements = self._connection.createStatement()
        try:
            return bool(statements.executeQuery(query).next())
        finally:
            statements.close()

    def commit(self) -> None:
        """Have everything count."""
        self._connection.commit()

    def close(self) -> None:
        """Close the connection; uncommitted changes are rolled back."""
        self._connection.rollback()
        self._connection.close()
