"""From the options to the place of the queues, and to the function that reads a part of it in a task.

Each is imported when it is chosen: planning needs no pyarrow, and whoever reads files needs no client.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from regulus.spark.options import Origin, ReadOptions
from regulus.spark.read_bounds import Part, Place
from regulus.spark.read_plan import ReadRange

if TYPE_CHECKING:
    import pyarrow as pa


def open_place(options: ReadOptions) -> Place:
    """Raises OptionError."""
    match options.origin:
        case Origin.STORE:
            from regulus.spark.store.plan import StorePlace

            return StorePlace(options)
        case Origin.LIVE:
            from regulus.spark.live.brokers import LiveBrokers

            return LiveBrokers(options)
        case Origin.HISTORY:
            from regulus.spark.archive.history_place import HistoryPlace

            return HistoryPlace(options)
        case Origin.ARCHIVE:
            from regulus.spark.archive.place import ArchivePlace

            return ArchivePlace(options)


def scan_part(options: ReadOptions, columns: tuple[str, ...], part: Part) -> Iterator["pa.RecordBatch"]:
    """The batches of one task. Raises DataLoss, OptionError, ClientError."""
    if not isinstance(part, ReadRange):
        from regulus.spark.archive import scan as archive_scan
        from regulus.spark.archive.order import HistoryRange

        if isinstance(part, HistoryRange):
            return (batch for piece in part.pieces for batch in scan_part(options, columns, piece))
        return archive_scan.scan(options, columns, part)
    if options.origin is Origin.STORE:
        from regulus.spark.store import scan as store_scan

        return store_scan.scan(options, columns, part)
    from regulus.spark.live import scan as live_scan

    return live_scan.scan(options, columns, part)
