"""`regulus index`: builds consume queues and index files from a commit log alone."""

from pathlib import Path

import click

from regulus.cli.archive import size_of, tasks_of
from regulus.cli.options import CORES_MAX, COUNT, LocalPath
from regulus.cli.progress import Progress
from regulus.model.delay_level import DEFAULT_LADDER
from regulus.model.java_numbers import INT_MAX
from regulus.spark.runtime.extras import require_extra


@click.group()
def index() -> None:
    """Build consume queues and index from a log."""


@index.command()
@click.option("--store", "store_path", required=True, type=LocalPath(exists=True, file_okay=False),
              help="Directory of a stopped broker's store, or a copy.")
@click.option("--output", required=True, type=LocalPath(file_okay=False),
              help="A new directory for `consumequeue` and `index`.")
@click.option("--delay-levels", default=DEFAULT_LADDER, show_default=True, help="messageDelayLevel of the broker.")
@click.option("--queue-file-size", type=COUNT, default=6_000_000, show_default=True,
              help="mappedFileSizeConsumeQueue of the broker.")
@click.option("--hash-slots", type=COUNT, default=5_000_000, show_default=True, help="maxHashSlotNum of the broker.")
@click.option("--index-entries", type=click.IntRange(2, INT_MAX), default=20_000_000, show_default=True,
              help="maxIndexNum of the broker.")
@click.option("--no-index", is_flag=True, help="Consume queues alone.")
@click.option("--deleted-topics", is_flag=True, help="Include topics that config/topics.json no longer has.")
@click.option("--range-size", default="512m", show_default=True, help="Bytes of log for each task, at most.")
@click.option("--cores", type=click.IntRange(0, CORES_MAX), default=2, show_default=True,
              help="Tasks at a time; 0 works in this process, without Spark.")
def rebuild(store_path: Path, output: Path, delay_levels: str, queue_file_size: int, hash_slots: int,
            index_entries: int, no_index: bool, deleted_topics: bool, range_size: str, cores: int) -> None:
    """Build consume queues and index again from the log of a stopped broker, in its format; then replace its own with
    them."""
    require_extra("spark", "rebuilding the index")
    from regulus.pipeline.index.rebuild import RebuildConfig, rebuild_index

    config = RebuildConfig(
        store_path=str(store_path.resolve()), output=str(output.resolve()), message_delay_level=delay_levels,
        mapped_file_size_consume_queue=queue_file_size, max_hash_slot_num=hash_slots, max_index_num=index_entries,
        message_index_enable=not no_index, range_size=size_of(range_size), with_deleted_topics=deleted_topics)
    with Progress.on_stderr() as progress:
        with tasks_of(cores, progress) as tasks:
            report = rebuild_index(tasks, config, progress.say)
        progress.end()
        click.echo(report)
