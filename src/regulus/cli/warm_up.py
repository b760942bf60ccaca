"""`regulus spark warm-up`: Java keeps Spark's classes as it needs them, and starts quicker."""

import os
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from regulus.cli.spark_session import command_java, command_session, end_java, java_places
from regulus.errors import OptionError
from regulus.model.message import MessageExt
from regulus.spark.runtime import class_archive
from regulus.spark.runtime.session import jvm_settings
from regulus.store.config import MessageStoreConfig
from regulus.store.file_message_store import FileMessageStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TOPIC = "warm-up"
_MESSAGES = 100
_HOST = bytes(8)


def write_class_archive() -> Path:
    """Run some of what jobs run, in a Spark of its own, whose Java writes the archive at its end; where it is then.

    Raises MissingJava, and OptionError when that Java writes none.
    """
    java = command_java()
    archive = class_archive.archive_of(java.home, java_places().cache)
    archive.parent.mkdir(parents=True, exist_ok=True)
    # Nobody finds half an archive.
    draft = archive.with_name(f"{archive.name}.{os.getpid()}")
    settings = jvm_settings(os.environ, {}, class_archive.written(draft))
    with tempfile.TemporaryDirectory(prefix="regulus-warm-up-") as store:
        _fill(Path(store))
        with command_session("local[2]", settings) as session:
            _work(session, store)
        end_java()
    try:
        draft.replace(archive)
    except FileNotFoundError as error:
        raise OptionError(f"Java wrote no archive of classes to {draft.parent}: set JAVA_HOME to a Java {java.version} "
                          "that ships its own (lib/server/classes.jsa), and unset SPARK_REMOTE") from error
    return archive


def _fill(directory: Path) -> None:
    store = FileMessageStore(MessageStoreConfig(store_path_root_dir=str(directory),
                                                mapped_file_size_commit_log=1 << 20))
    store.open()
    now_ms = round(datetime.now(UTC).timestamp() * 1000)
    for number in range(_MESSAGES):
        properties = {"KEYS": f"key-{number}", "UNIQ_KEY": f"{number:032X}"}
        store.append(MessageExt(_TOPIC, b"warm", properties, 0, 0, 0, now_ms, _HOST, _HOST), now_ms)
    while store.dispatch_behind_bytes():
        store.dispatch(_MESSAGES)
    store.close()


def _work(session: "SparkSession", store: str) -> None:
    from regulus.pipeline.jobs.audit import AuditRequest, audit
    from regulus.pipeline.jobs.log_source import LogSource
    from regulus.pipeline.jobs.search import SearchRequest, search
    from regulus.pipeline.range_tasks import SparkTasks

    now = datetime.now(UTC)
    source = LogSource({"storePath": store})
    search(session, SearchRequest(source=source, key="key-1"), now).collect()
    audit(session, AuditRequest(source=source, topics=(_TOPIC,)), now).close()
    SparkTasks(session).run(_nothing, [_Nothing()])


class _Nothing:
    size = 0


def _nothing(task: _Nothing, attempt: str) -> None:
    """A task as those of the archive and the index are carried out."""
