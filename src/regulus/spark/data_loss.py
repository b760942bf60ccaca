"""What a task does about messages that are gone or damaged, as the options say; and the batches of those that are good.

What is gone: `failOnDataLoss`. What is damaged, so that there is something and it is no good message: `badRecords`, or
`failOnDataLoss` too where that is not given. Damaged ones are kept, when they are to be, in a directory of files of one
JSON object each, which Spark reads as a table:

    topic, broker_name, queue_id, queue_offset    the message's place
    reason                                        what is wrong with it
    data                                          base64 of what lies there, at most DATA_MAX bytes
    size                                          how many bytes lie there

A file is named by the message's place and a digest of what lies there: a task that is done again writes the same ones,
and the same place of a topic that was made anew, or of another cluster, has another one.
"""

import base64
import hashlib
import json
import logging
import uuid
from collections.abc import Iterator
from urllib.parse import quote

import numpy as np
import pyarrow as pa

from regulus.errors import DataLoss, OptionError
from regulus.model.message_queue import MessageQueue
from regulus.record.byte_runs import Buffer
from regulus.spark.columns.records import BadRecord, BatchFull, ColumnOptions, Records, gap_batch, record_batch
from regulus.spark.options import OnBadRecord, OnDataLoss, ReadOptions
from regulus.spark.read_bounds import data_loss
from regulus.spark.read_plan import Gap

BAD_RECORDS_MAX = 1000
"""Damaged messages of one task that are dropped or kept. More are no single messages, and worth a look."""

DATA_MAX = 1 << 20
_NAME_MAX = 80
"""Characters of a topic, and of a broker, in the name of a file; the digest tells longer ones apart."""

_log = logging.getLogger(__name__)


class Losses:
    """Of one task. `columns` are those of the rows that stand for what is gone."""

    def __init__(self, options: ReadOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns
        self._bad = 0
        self._first_bad = ""

    def gone(self, gap: Gap) -> Iterator[pa.RecordBatch]:
        """Raises DataLoss where the read is to fail."""
        if self._options.on_data_loss is OnDataLoss.FAIL:
            raise data_loss(gap)
        if self._options.on_data_loss is OnDataLoss.REPORT:
            yield gap_batch([gap], self._columns)

    def bad(self, queue: MessageQueue, queue_offset: int, reason: str, data: Buffer) -> Iterator[pa.RecordBatch]:
        """`data` is all that lies in the message's place. Raises DataLoss where the read is to fail."""
        gap = Gap(queue, queue_offset, queue_offset + 1, f"because it is damaged: {reason}")
        on_bad = self._options.on_bad_record
        if on_bad is None and self._options.on_data_loss is not OnDataLoss.FAIL:
            yield from self.gone(gap)
            return
        if on_bad is None or on_bad is OnBadRecord.FAIL:
            raise DataLoss(f"{gap}; set badRecords to drop or to reject, or failOnDataLoss to false or report, to go "
                           "on without it")
        self._bad += 1
        self._first_bad = self._first_bad or str(gap)
        if self._bad > BAD_RECORDS_MAX:
            raise DataLoss(f"more than {BAD_RECORDS_MAX} messages of one task are damaged, the first of them "
                           f"{self._first_bad}: that is no single message; look at the log, or set badRecords to fail "
                           "and failOnDataLoss to false to read what is good of it")
        if on_bad is OnBadRecord.REJECT:
            _keep(self._options.bad_records_path, queue, queue_offset, reason, data)

    def tell(self) -> None:
        """At the end of the task, how many were damaged."""
        if self._bad:
            kept = f"kept in {self._options.bad_records_path}" if self._options.bad_records_path else "dropped"
            _log.warning("damaged messages that were %s: %d, the first: %s", kept, self._bad, self._first_bad)


def good_batches(records: Records, options: ColumnOptions, losses: Losses) -> Iterator[pa.RecordBatch]:
    """The records that are good, in batches that are not too large, and what becomes of the others."""
    while len(records.positions):
        try:
            batch = record_batch(records, options)
        except BatchFull as full:
            yield from good_batches(records.take(slice(0, full.row)), options, losses)
            records = records.take(slice(full.row, None))
            continue
        except BadRecord as error:
            yield from good_batches(records.take(slice(0, error.row)), options, losses)
            yield from losses.bad(*_place(records, error.row, options.broker_name), str(error),
                                  _data(records, error.row))
            records = records.take(slice(error.row + 1, None))
            continue
        if batch.num_rows:
            yield batch
        return


def gaps_of(records: Records, broker_name: str, cause: str) -> Iterator[Gap]:
    """A gap for each queue that has some of the records, which are all that it has from the first to the last."""
    for number in np.unique(records.queue_numbers).tolist():
        offsets = records.queue_offsets[records.queue_numbers == number]
        queue = MessageQueue(records.topics[number], broker_name, records.queue_ids[number])
        yield Gap(queue, int(offsets.min()), int(offsets.max()) + 1, cause)


def _place(records: Records, row: int, broker_name: str) -> tuple[MessageQueue, int]:
    number = int(records.queue_numbers[row])
    return (MessageQueue(records.topics[number], broker_name, records.queue_ids[number]),
            int(records.queue_offsets[row]))


def _data(records: Records, row: int) -> Buffer:
    """The bytes that the message's place has; its size may be anything where the unit is damaged."""
    start = int(records.positions[row])
    # A slice of a memoryview is not a copy; one of a mapped file is.
    return memoryview(records.data)[start:start + max(0, int(records.sizes[row]))]


def _keep(directory: str, queue: MessageQueue, queue_offset: int, reason: str, data: Buffer) -> None:
    """Raises OptionError when the directory cannot be written."""
    from pyarrow import fs

    shown = bytes(data[:DATA_MAX])
    line = {"topic": queue.topic, "broker_name": queue.broker_name, "queue_id": queue.queue_id,
            "queue_offset": queue_offset, "reason": reason, "size": len(data),
            "data": base64.b64encode(shown).decode()}
    digest = hashlib.sha256(repr((*queue, queue_offset, len(data))).encode() + shown).hexdigest()
    name = "-".join((quote(queue.topic, safe="")[:_NAME_MAX], quote(queue.broker_name, safe="")[:_NAME_MAX],
                     str(queue.queue_id), f"{queue_offset:020d}", digest[:16]))
    try:
        files, root = fs.FileSystem.from_uri(directory)
        files.create_dir(root, recursive=True)
        # Under another name first, which Spark passes over, so that none is seen that is cut short; one of its own, as
        # another attempt of the task may be at the same message.
        staged = f"{root}/_{name}-{uuid.uuid4().hex[:16]}"
        with files.open_output_stream(staged) as stream:
            stream.write(json.dumps(line, sort_keys=True).encode() + b"\n")
        files.move(staged, f"{root}/{name}.json")
    except (OSError, pa.ArrowException) as error:
        raise OptionError(f"option 'badRecordsPath' is {directory!r}, where a damaged message cannot be kept: {error}"
                          ) from error
