"""A disk that really is full: a small file system in memory, mounted in a name space of the child's own."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent

SCRIPT = """
import sys
from pathlib import Path
from regulus.errors import StoreNotWritable
from regulus.model.store_result import PutStatus
from tests.stores import NOW, a_message, bodies, dispatch, open_store

disk = Path(sys.argv[1])
(disk / "ballast").write_bytes(bytes(1 << 20))
SETTINGS = dict(mapped_file_size_commit_log=2 << 20, mapped_file_size_consume_queue=6_000_000, max_hash_slot_num=1000,
                max_index_num=100_000)
store = open_store(disk / "store", **SETTINGS)
stored = []
while True:
    if store.wants_allocation:
        store.allocate_ahead()
    body = str(len(stored)).encode().ljust(900, b".")
    appended = store.append(a_message(body=body, queue_id=len(stored) % 8, UNIQ_KEY=f"U{len(stored)}"), NOW)
    if appended.status is not PutStatus.PUT_OK:
        break
    stored.append(body)
    store.dispatch(100)
assert appended.status is PutStatus.SERVICE_NOT_AVAILABLE, appended.status
assert "is full" in appended.remark and str(disk) in appended.remark, appended.remark
assert len(stored) > 4000, len(stored)
assert store.flush_commit_log() == store.commit_log_max_offset()
try:
    store.save_config("topics", "{%s}" % ("1" * 100_000))
except StoreNotWritable as error:
    assert "is full" in str(error)
else:
    raise AssertionError("a document was saved to a full disk")

def readable():
    return sorted(body for queue_id in range(8) for body in bodies(store, "TopicA", queue_id))

seen = len(readable())
assert seen >= len(stored) - 1, (seen, len(stored))
(disk / "ballast").unlink()
assert store.is_writable
dispatch(store)
assert readable() == sorted(stored)
assert store.append(a_message(body=b"after"), NOW).status is PutStatus.PUT_OK
dispatch(store)
store.close()
(disk / "ballast").write_bytes(bytes(900 << 10))
try:
    while True:
        with (disk / "ballast").open("ab") as file:
            file.write(bytes(4096))
except OSError:
    pass
store = open_store(disk / "store", **SETTINGS)
assert len(readable()) == len(stored) + 1
print("well")
"""


def test_a_full_disk_stops_sends_and_nothing_else(tmp_path: Path) -> None:
    command = ["unshare", "--user", "--map-root-user", "--mount"]
    if shutil.which("unshare") is None or subprocess.run([*command, "true"], check=False).returncode:
        pytest.skip("no name spaces here")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    path = ":".join([str(ROOT), *sys.path])
    shell = (f"mount -t tmpfs -o size=8m tmpfs '{tmp_path}/disk' && PYTHONPATH='{path}' "
             f"exec '{sys.executable}' '{script}' '{tmp_path}/disk'")
    (tmp_path / "disk").mkdir()
    done = subprocess.run([*command, "sh", "-c", shell], capture_output=True, text=True, check=False)
    assert done.stdout == "well\n", done.stderr
