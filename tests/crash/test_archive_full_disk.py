"""A disk that is full while an archive is staged: one sentence, and nothing half-visible."""

from pathlib import Path

from tests.crash.small_disk import on_small_disk

SCRIPT = """
import random, sys
from pathlib import Path
from regulus.errors import ArchiveFailed
from tests.archives import archive_store, archived_rows, files_of
from tests.stores import NOW, a_message, dispatch, open_store

disk, root = Path(sys.argv[1]), Path(sys.argv[2])
chance = random.Random(1)
store = open_store(root / "store", mapped_file_size_commit_log=1 << 20, mapped_file_size_consume_queue=20_000)
for number in range(300):
    store.append(a_message(body=chance.randbytes(10_000), UNIQ_KEY=str(number)), NOW + number)
dispatch(store)
store.close()
try:
    archive_store(root / "store", disk / "archive", range_size=1 << 18)
except ArchiveFailed as error:
    assert "is full" in str(error) and str(disk) in str(error), error
else:
    raise AssertionError("three megabytes fit on a disk of two")
assert not list((disk / "archive").rglob("*.parquet")), list((disk / "archive").rglob("*"))
assert not (disk / "archive" / "_staging").exists()
archive_store(root / "store", root / "archive", range_size=1 << 18)
assert len(archived_rows(root / "archive", topic="TopicA")) == 300
print("well")
"""


def test_a_full_disk_is_one_sentence_and_leaves_nothing(tmp_path: Path) -> None:
    on_small_disk(tmp_path, "2m", SCRIPT, str(tmp_path))
