"""A DataFrame into its topic: each micro-batch is one append, which counts once.

The rows are made records by Spark's tasks, which write segments that nobody sees yet. The driver makes all of them
visible with one append under the query's id and the batch's number, so a batch that Spark repeats is there already.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.arrays import null_mask
from penstock.engine.batch.result import quiet
from penstock.engine.children.query import Query
from penstock.engine.children.rows import PARTITION, Rows
from penstock.engine.shared.children import Child
from penstock.engine.shared.garbage import set_apart_once
from penstock.engine.spark.checkpoints import producer_of, query_of_this_batch, read_text
from penstock.engine.spark.log_option import Place
from penstock.errors import ConfigError
from penstock.faults import crash_point
from penstock.log.base import Log
from penstock.log.open import open_log
from penstock.log.produce import BY_KEY, Placed, check_columns, check_partitions, existing_or_new, write_batch
from penstock.plan.dataframes import FrameSource
from penstock.values.strange_times import SAY_UNIT, tell_of_strange_times

HANDED = "handed binary"


class SourceQuery(Query):
    """Brings the rows of a DataFrame into the topic that the program owns.

    Args:
        log: where other processes find the log.
    """

    def __init__(self, application_id: str, source: FrameSource, topic: str, log: Place, place: str):
        super().__init__(application_id, Child(name=source.name, topic=topic), place, source.trigger_ms)
        self._source = source
        self._log = log
        self._rows = Rows.of(f"DataFrame {source.name!r}", source)

    @property
    def session(self) -> Any:
        """The session of the DataFrame."""
        return self._source.frame.sparkSession

    def prepare(self, log: Log, partitions: int) -> None:
        """Make the topic, where it is not there.

        Args:
            partitions: how many it gets, unless the program says another number.

        Raises:
            ConfigError: the topic, or the query's progress, is not the other one's.
        """
        topic, wanted = self.child.topic, self._source.partitions
        has_begun = read_text(self.session, f"{self.place}/metadata") is not None
        if not log.exists(topic) and has_begun:
            raise ConfigError(
                f"DataFrame {self._source.name!r}: topic {topic!r} is gone, but its query has read rows into it: these "
                f"rows would be missing. Remove {self.place} to read the DataFrame from its beginning again. "
                "Nothing was started"
            )
        if log.exists(topic) and not has_begun and any(log.end_offsets(topic)):
            raise ConfigError(
                f"DataFrame {self._source.name!r}: topic {topic!r} has records, but the progress of its query, "
                f"{self.place}, is gone: its rows would come a second time. Restore that folder; or remove the topic "
                f"(penstock topics rm {topic}) to process all rows again under another application id. Nothing was "
                "started"
            )
        new = self._rows.topic(topic, wanted or partitions)
        check_columns(log, new, f"DataFrame {self._source.name!r}")
        check_partitions(log, topic, wanted)
        existing_or_new(log, new)

    def _writer(self, session: Any) -> Any:
        return self._source.frame.writeStream.foreachBatch(self._take)

    def _take(self, frame: Any, number: int) -> None:
        """Write a micro-batch, unless it is in the topic already."""
        topic, producer = self.child.topic, producer_of(str(query_of_this_batch(frame)))
        with self._at_work(), closing(open_log(self._log)) as log:
            if log.last_sequence(topic, producer) >= number:
                return
            rows = self._rows.ordered(frame, log.topic(topic).partitions)
            chosen = self._source.order[0] is not None
            write = writing(self._log, topic, self._rows, chosen)
            with quiet():
                handed = [bytes(row[0]) for row in rows.mapInArrow(write, HANDED).collect()]
            segments = [segment for one in handed for segment in log.take_over(one)]
            crash_point("before-rows")
            if segments:
                log.append(topic, segments, producer, number)
            crash_point("after-rows")


def writing(place: Place, topic: str, rows: Rows, is_placed: bool) -> Any:
    """Return the function that writes the rows of a task of Spark, and reports the segments.

    Args:
        is_placed: whether the rows say in which partition they are; else that decides for those without a key.
    """
    chosen, schema = rows.chosen, rows.schema

    def write(batches: Iterator[Any]) -> Iterator[Any]:
        with closing(open_log(place)) as log:
            info, is_first = log.topic(topic), True
            with log.writer(topic, f"spark-{os.urandom(8).hex()}") as writer:
                for batch in batches:
                    records = chosen.encode(batch.select(schema.names).cast(schema))
                    if is_first and len(records):
                        tell_of_strange_times(topic, records.timestamp, SAY_UNIT)
                        is_first = False
                    said = batch.column(PARTITION).to_numpy(zero_copy_only=False)
                    without = null_mask(records.key)
                    given = said if is_placed else np.where(False if without is None else without, said, BY_KEY)
                    write_batch(writer, info, Placed(records, given), 0)
            yield pa.record_batch({"handed": pa.array([log.hand_over(writer.segments())], pa.binary())})
        set_apart_once()

    return write
