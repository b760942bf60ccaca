"""Applies the options about messages that are gone or damaged, and makes the batches of good ones.

`failOnDataLoss` decides about messages that are gone. `badRecords` decides about damaged ones, of which something is
left that is not a good message; without it `failOnDataLoss` decides about these, too. Rejected messages are kept in a
directory of files of one JSON object each, which Spark can read as a table:

    topic, broker_name, queue_id, queue_offset    the message's place
    reason                                        what is wrong with it
    data                                          base64 of the bytes there, at most DATA_MAX of them
    size                                          number of bytes there

A file's name has the message's place and a digest of the bytes there. So a task that runs again writes the same files,
and the same place of a topic that was created again, or of another cluster, has another file.
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
"""Damaged messages that one task drops or keeps, at most. More of them are a fault of the log to look into."""

DATA_MAX = 1 << 20
_NAME_MAX = 80
"""Characters of a topic, and of a broker, in the name of a file; the digest distinguishes longer ones."""

_log = logging.getLogger(__name__)


class Losses:
    """Handles the losses of one task. `columns` are those of the rows that report gaps."""

    def __init__(self, options: ReadOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns
        self._bad = 0
        self._first_bad = ""

    def gone(self, gap: Gap) -> Iterator[pa.RecordBatch]:
        """The row of a gap, if the options want one. Raises DataLoss when the read is to fail."""
        if self._options.on_data_loss is OnDataLoss.FAIL:
            raise data_loss([gap])
        if self._options.on_data_loss is OnDataLoss.REPORT:
            yield gap_batch([gap], self._columns)

    def bad(self, queue: MessageQueue, queue_offset: int, reason: str, data: Buffer) -> Iterator[pa.RecordBatch]:
        """Handle a damaged message; `data` has the bytes in its place. Raises DataLoss when the read is to fail."""
        gap = Gap(queue, queue_offset, queue_offset + 1, f"because it is damaged: {reason}")
        on_bad = self._options.on_bad_record
        if on_bad is None and self._options.on_data_loss is not OnDataLoss.FAIL:
            yield from self.gone(gap)
            return
        if on_bad is None or on_bad is OnBadRecord.FAIL:
            raise DataLoss(f"{gap}; set badRecords to drop or to reject, or failOnDataLoss to false or report, to "
                           "continue without it")
        self._bad += 1
        self._first_bad = self._first_bad or str(gap)
        if self._bad > BAD_RECORDS_MAX:
            raise DataLoss(f"more than {BAD_RECORDS_MAX} messages of one task are damaged, the first of them "
                           f"{self._first_bad}: that is not a single message; look at the log, or set badRecords to "
                           "fail and failOnDataLoss to false to read what is good of it")
        if on_bad is OnBadRecord.REJECT:
            _keep(self._options.bad_records_path, queue, queue_offset, reason, data)

    def tell(self) -> None:
        """Log at the end of the task how many messages were damaged."""
        if self._bad:
            kept = f"kept in {self._options.bad_records_path}" if self._options.bad_records_path else "dropped"
            _log.warning("damaged messages that were %s: %d, the first: %s", kept, self._bad, self._first_bad)


def good_batches(records: Records, options: ColumnOptions, losses: Losses) -> Iterator[pa.RecordBatch]:
    """The batches of good records, of limited size, and the rows that report damaged ones."""
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
    """A gap for each queue of the records, which must be all that the queue has from the first to the last."""
    for number in np.unique(records.queue_numbers).tolist():
        offsets = records.queue_offsets[records.queue_numbers == number]
        queue = MessageQueue(records.topics[number], broker_name, records.queue_ids[number])
        yield Gap(queue, int(offsets.min()), int(offsets.max()) + 1, cause)


def _place(records: Records, row: int, broker_name: str) -> tuple[MessageQueue, int]:
    number = int(records.queue_numbers[row])
    return (MessageQueue(records.topics[number], broker_name, records.queue_ids[number]),
            int(records.queue_offsets[row]))


def _data(records: Records, row: int) -> Buffer:
    """The bytes in the message's place. If the unit is damaged, its size may be any number."""
    start = int(records.positions[row])
    # A slice of a memoryview is not a copy, but one of a mapped file is.
    return memoryview(records.data)[start:start + max(0, int(records.sizes[row]))]


def _keep(directory: str, queue: MessageQueue, queue_offset: int, reason: str, data: Buffer) -> None:
    """Write the file of a damaged message. Raises OptionError when the directory cannot be written."""
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
        # Write under another name first, which Spark ignores, so that it never reads an incomplete file. The name is
        # unique, because another attempt of the task may be writing the same message.
        staged = f"{root}/_{name}-{uuid.uuid4().hex[:16]}"
        with files.open_output_stream(staged) as stream:
            stream.write(json.dumps(line, sort_keys=True).encode() + b"\n")
        files.move(staged, f"{root}/{name}.json")
    except (OSError, pa.ArrowException) as error:
        raise OptionError(f"option 'badRecordsPath' is {directory!r}, where a damaged message cannot be kept: {error}"
                          ) from error
