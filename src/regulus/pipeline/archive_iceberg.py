"""The archive as an Iceberg table: its files are added where they lie, nothing is copied.

Each range is one snapshot whose summary says `regulus.range`, so the history of the table is that of the archive. What
the table has is read from the table itself, hence a file is never added twice, whenever a run was killed. Compaction
puts the new file in and takes those that it replaces out in one snapshot.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regulus.errors import OptionError
from regulus.pipeline.archive_config import IcebergTable
from regulus.spark.archive_manifest import Manifest

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

RANGE_PROPERTY = "regulus.range"


class IcebergCatalog:
    def __init__(self, target: IcebergTable, archive: Path) -> None:
        """Opens the table, or makes it: partitioned by topic and day of store time.

        Raises OptionError when pyiceberg is not there or the catalog cannot be opened.
        """
        try:
            from pyiceberg.catalog import load_catalog
            from pyiceberg.exceptions import NoSuchTableError
        except ImportError as error:
            raise OptionError("an Iceberg table needs pyiceberg: pip install 'regulus[iceberg]'") from error
        if "." not in target.table:
            raise OptionError(f"the Iceberg table is {target.table!r}: write namespace.name")
        self._archive = archive.resolve()
        self._catalog: Any = load_catalog(target.catalog, **dict(target.properties))
        try:
            self._table: Table = self._catalog.load_table(target.table)
        except NoSuchTableError:
            self._table = self._create(target.table)

    def _create(self, name: str) -> "Table":
        from pyiceberg.transforms import DayTransform, IdentityTransform

        from regulus.spark.columns import arrow_schema
        from regulus.spark.table_schema import COLUMNS

        self._catalog.create_namespace_if_not_exists(name.rpartition(".")[0])
        table: Table = self._catalog.create_table(name, schema=arrow_schema(tuple(COLUMNS)))
        with table.update_spec() as update:
            update.add_field("topic", IdentityTransform(), "topic")
            update.add_field("store_time", DayTransform(), "dt")
        table.refresh()
        return table

    def add(self, manifests: Sequence[Manifest]) -> None:
        """Raises ArchiveFailed when the catalog refuses."""
        present = self.files()
        for manifest in manifests:
            paths = [self._place(file.path) for file in manifest.files]
            missing = [path for path in paths if path not in present]
            if missing:
                self._table.add_files(missing, snapshot_properties={RANGE_PROPERTY: manifest.range.name})

    def replace(self, new: Manifest | None, old: Sequence[Manifest]) -> None:
        """Show the files of `new` instead of those of `old`; files that are as wished already stay as they are."""
        present = self.files()
        added = [path for file in (new.files if new else ()) if (path := self._place(file.path)) not in present]
        gone = {path for manifest in old for file in manifest.files if (path := self._place(file.path)) in present}
        if not added and not gone:
            return
        properties = {RANGE_PROPERTY: new.range.name} if new is not None else {}
        with self._table.transaction() as transaction, transaction.update_snapshot(
                snapshot_properties=properties).overwrite() as overwrite:
            for data_file in self._data_files(added):
                overwrite.append_data_file(data_file)
            for task in self._table.scan().plan_files():
                if task.file.file_path in gone:
                    overwrite.delete_data_file(task.file)

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
