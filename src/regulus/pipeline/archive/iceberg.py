"""The archive as an Iceberg table: its files are added where they lie, nothing is copied.

Each range is one snapshot whose summary says `regulus.range`, so the history of the table is that of the archive. What
the table has is read from the table itself and compared with what the manifests name; hence a file is never added
twice, whenever a run was killed, and what compaction replaced goes in the snapshot in which its successor comes.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regulus.errors import ArchiveFailed, OptionError
from regulus.pipeline.archive.config import IcebergTable
from regulus.spark.archive.manifest import Manifest
from regulus.spark.runtime.extras import require_extra

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

RANGE_PROPERTY = "regulus.range"


class IcebergCatalog:
    def __init__(self, target: IcebergTable, archive: Path) -> None:
        """Opens the table, or makes it: partitioned by topic and day of store time.

        Raises MissingExtra when pyiceberg is not there, ArchiveFailed when the catalog cannot be opened.
        """
        require_extra("iceberg", "an Iceberg table")
        from pyiceberg.catalog import load_catalog
        from pyiceberg.exceptions import NoSuchTableError

        if "." not in target.table:
            raise OptionError(f"the Iceberg table is {target.table!r}: write namespace.name")
        self._archive = archive.resolve()
        with _catalog_errors("nothing was archived"):
            self._catalog: Any = load_catalog(target.catalog, **dict(target.properties))
            try:
                self._table: Table = self._catalog.load_table(target.table)
            except NoSuchTableError:
                self._table = self._create(target.table)

    def _create(self, name: str) -> "Table":
        from pyiceberg.transforms import DayTransform, IdentityTransform

        from regulus.spark.columns.records import arrow_schema
        from regulus.spark.table_schema import COLUMNS

        self._catalog.create_namespace_if_not_exists(name.rpartition(".")[0])
        table: Table = self._catalog.create_table(name, schema=arrow_schema(tuple(COLUMNS)))
        with table.update_spec() as update:
            update.add_field("topic", IdentityTransform(), "topic")
            update.add_field("store_time", DayTransform(), "dt")
        table.refresh()
        return table

    def show(self, manifests: Sequence[Manifest]) -> None:
        """Let the table consist of the files of these manifests, which are all that count in the archive.

        Files are added range by range; where some are no longer named, in one snapshot with what took their place.
        Raises ArchiveFailed when the catalog refuses.
        """
        with _catalog_errors("the archive has the messages; the next run shows them"):
            present = self.files()
            missing = [(manifest.range.name, paths) for manifest in manifests
                       if (paths := [path for file in manifest.files
                                     if (path := self._place(file.path)) not in present])]
            named = {self._place(file.path) for manifest in manifests for file in manifest.files}
            gone = {path for path in present if path.startswith(self._place("")) and path not in named}
            if gone:
                self._replace(missing, gone)
            else:
                for name, paths in missing:
                    self._table.add_files(paths, snapshot_properties={RANGE_PROPERTY: name})

    def _replace(self, missing: Sequence[tuple[str, list[str]]], gone: set[str]) -> None:
        properties = {RANGE_PROPERTY: ",".join(name for name, _ in missing)} if missing else {}
        added = self._data_files([path for _, paths in missing for path in paths])
        removed = [task.file for task in self._table.scan().plan_files() if task.file.file_path in gone]
        with self._table.transaction() as transaction, transaction.update_snapshot(
                snapshot_properties=properties).overwrite() as overwrite:
            for data_file in added:
                overwrite.append_data_file(data_file)
            for data_file in removed:
                overwrite.delete_data_file(data_file)

    def _data_files(self, paths: list[str]) -> "list[DataFile]":
        from pyiceberg.io.pyarrow import parquet_files_to_data_files

        return list(parquet_files_to_data_files(io=self._table.io, table_metadata=self._table.metadata,
                                                file_paths=iter(paths)))

    def files(self) -> set[str]:
        """The paths that the table consists of now."""
        self._table.refresh()
        if self._table.current_snapshot() is None:
            return set()
        return set(self._table.inspect.files().column("file_path").to_pylist())

    def _place(self, path: str) -> str:
        return f"file://{self._archive / path}"


@contextmanager
def _catalog_errors(consequence: str) -> Iterator[None]:
    """Turns what a catalog raises into one sentence. Raises ArchiveFailed."""
    try:
        yield
    except _kinds_of_errors() as error:
        first_line = str(error).partition("\n")[0]
        raise ArchiveFailed(f"the Iceberg catalog refused ({type(error).__name__}: {first_line}): "
                            f"{consequence}") from error


def _kinds_of_errors() -> tuple[type[Exception], ...]:
    """pyiceberg's errors have no common base, and a catalog in a database has those of its driver."""
    from pyiceberg import exceptions

    kinds = [kind for kind in vars(exceptions).values() if isinstance(kind, type) and issubclass(kind, Exception)]
    with suppress(ImportError):
        from sqlalchemy.exc import SQLAlchemyError

        kinds.append(SQLAlchemyError)
    return (ValueError, OSError, *kinds)
