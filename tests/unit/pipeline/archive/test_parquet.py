import hashlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from regulus.pipeline.archive import parquet as archive_parquet
from regulus.pipeline.archive.parquet import StagedFile, body_views, made_ahead, row_groups, write_row_groups
from regulus.record import message_record
from tests.archives import archive_store, archived_rows, manifests_of
from tests.stores import NOW, a_message, dispatch, open_store

IPV6 = bytes(range(16)) + bytes((0, 0, 0x2A, 0x9F))
SIZES = (0, 1, 3, 4, 5, 11, 12, 13, 16, 1000, 0)


def test_rows_are_grouped_by_number_and_by_bytes():
    assert row_groups(np.full(150_000, 100)) == [slice(0, 65_536), slice(65_536, 131_072), slice(131_072, 150_000)]
    assert [part.stop - part.start for part in row_groups(np.full(40, 4 << 20))] == [16, 16, 8]
    assert row_groups(np.array([100 << 20, 1])) == [slice(0, 1), slice(1, 2)]
    assert row_groups(np.array([], dtype=np.int64)) == []


def test_large_bodies_make_small_row_groups(tmp_path, monkeypatch):
    monkeypatch.setattr(archive_parquet, "ROW_GROUP_BYTES_MAX", 10_000)
    store = open_store(tmp_path / "store", mapped_file_size_commit_log=1 << 20)
    for number in range(10):
        store.append(a_message(body=bytes([number]) * 4000), NOW)
    dispatch(store)
    store.close()
    archive_store(tmp_path / "store", tmp_path / "archive")
    file = manifests_of(tmp_path / "archive")[0]["files"][0]
    assert pq.ParquetFile(tmp_path / "archive" / file["path"]).metadata.num_row_groups == 5
    rows = archived_rows(tmp_path / "archive", "body", topic="TopicA")
    assert [row["body"] for row in rows] == [bytes([number]) * 4000 for number in range(10)]


# --- bodies ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("born_host", [None, IPV6])
@pytest.mark.parametrize("store_host", [None, IPV6])
def test_views_are_the_bodies_of_all_sizes_up_to_the_end_of_the_file(born_host, store_host):
    bodies = [bytes((number + place) % 256 for place in range(size)) for number, size in enumerate(SIZES)]
    log, positions, flags = bytearray(), [], []
    for body in bodies:
        message = a_message(topic="", body=body)
        message.born_host = born_host or message.born_host
        message.store_host = store_host or message.store_host
        message.properties = {}
        positions.append(len(log))
        log += message_record.encode(message)
        flags.append(message.sys_flag)
    views = body_views(bytes(log), np.array(positions), np.array(flags))
    views.validate(full=True)
    assert views.to_pylist() == bodies


def test_views_and_binaries_are_written_alike(tmp_path):
    bodies = pa.array([bytes([number % 256]) * number for number in range(2000)])
    written = []
    with ThreadPoolExecutor(1) as follower:
        for column in (bodies, bodies.cast(pa.binary_view())):
            table = pa.table({"body": column})
            with StagedFile(tmp_path / str(len(written)), follower) as file:
                write_row_groups(file, table.schema, iter([table, table.slice(0, 10)]))
            size, sha256 = file.finish()
            written.append(file.path.read_bytes())
            assert (size, sha256) == (len(written[-1]), hashlib.sha256(written[-1]).hexdigest())
            assert pq.read_table(file.path).column("body").to_pylist() == (bodies.to_pylist() + bodies[:10].to_pylist())
    assert written[0] == written[1]


# --- threads ---------------------------------------------------------------------------------------------------------


def test_one_item_is_made_ahead_and_not_two():
    made = [Event() for _ in range(4)]

    def items() -> Iterator[int]:
        for number, event in enumerate(made):
            event.set()
            yield number

    with ThreadPoolExecutor(1) as maker:
        ahead = made_ahead(items(), maker)
        assert next(ahead) == 0
        assert made[1].wait(60)
        assert not made[2].is_set()
        assert list(ahead) == [1, 2, 3]


def test_what_the_maker_raises_is_raised_where_the_item_is_asked_for():
    def items() -> Iterator[int]:
        yield 0
        raise OSError("no more")

    with ThreadPoolExecutor(1) as maker:
        ahead = made_ahead(items(), maker)
        assert next(ahead) == 0
        with pytest.raises(OSError, match="no more"):
            next(ahead)


def test_a_file_that_cannot_be_synced_is_not_finished(tmp_path, monkeypatch):
    def refuse(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(archive_parquet.os, "fsync", refuse)
    with ThreadPoolExecutor(1) as follower:
        with StagedFile(tmp_path / "file", follower) as file:
            file.sink.write(b"some")
        with pytest.raises(OSError, match="Input/output error"):
            file.finish()
