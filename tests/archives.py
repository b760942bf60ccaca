"""Archives of small stores, and what lies in them."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa

from regulus.pipeline.archive.config import ArchiveConfig
from regulus.pipeline.archive.run import ArchiveReport, run_archive
from regulus.pipeline.range_tasks import LocalTasks
from regulus.spark.archive.place import plan
from regulus.spark.archive.scan import scan
from regulus.spark.options import parse_options
from regulus.spark.table_schema import COLUMNS


def nothing(step: str) -> None:
    """A step of a job that nobody looks at."""


def archive_store(store: Path, archive: Path, **changes: Any) -> ArchiveReport:
    config = ArchiveConfig(store_path=str(store), archive_path=str(archive), **changes)
    return run_archive(LocalTasks(), config, "run", None, None, nothing)


def archived_rows(archive: Path, *columns: str, cores: int = 2, **options: object) -> list[dict[str, Any]]:
    """All rows that a read of the archive gives, task after task."""
    read = parse_options({"archivePath": str(archive), **{key: str(value) for key, value in options.items()}})
    batches = [batch for part in plan(read, cores) for batch in scan(read, columns or tuple(COLUMNS), part)]
    return pa.Table.from_batches(batches).to_pylist() if batches else []


def files_of(archive: Path) -> dict[str, bytes]:
    """Path and bytes of each file that lies there, lock and identity left out."""
    return {str(path.relative_to(archive)): path.read_bytes()
            for path in sorted(archive.rglob("*")) if path.is_file() and path.name not in ("_lock", "_identity")}


def manifests_of(archive: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_bytes()) for path in sorted((archive / "_manifest").glob("*/*.json"))]
