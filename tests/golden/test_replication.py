"""What a master of RocketMQ 4.9.8 sent its slave, and what the slave answered."""

import json
from base64 import b64decode
from pathlib import Path
from typing import Any

from regulus.store.config import MessageStoreConfig
from regulus.store.file_message_store import FileMessageStore
from regulus.wire.ha_frame import PieceReader, ReportReader, encode_head, encode_report

RECORDED = Path(__file__).with_name("ha-4.9.8.jsonl")
FILE_SIZE = 131_072


def frames(connection: int) -> list[dict[str, Any]]:
    return [frame for line in RECORDED.read_text().splitlines() if (frame := json.loads(line))["conn"] == connection]


def copying_store(root: Path) -> FileMessageStore:
    store = FileMessageStore(MessageStoreConfig(store_path_root_dir=str(root), mapped_file_size_commit_log=FILE_SIZE,
                                                max_hash_slot_num=500, max_index_num=2000))
    store.be_copy("a copy", FILE_SIZE)
    store.open()
    return store


def test_each_frame_is_read_and_written_as_it_was() -> None:
    for frame in (*frames(1), *frames(2)):
        data = b64decode(frame["bytes_base64"])
        if frame["dir"] == "slave2master":
            assert ReportReader().feed(data) == frame["offset"]
            assert encode_report(frame["offset"]) == data
        else:
            ((offset, piece),) = PieceReader().feed(data)
            assert (offset, len(piece)) == (frame["offset"], frame["bodySize"])
            assert encode_head(offset, len(piece)) + piece == data


def test_a_copy_of_what_was_sent_ends_where_the_slave_s_log_did(tmp_path: Path) -> None:
    """Two connections; the second goes over the end of a file, whose blank and next record are cut in two."""
    sent = bytearray()
    for connection in (1, 2):
        store = copying_store(tmp_path)
        reader = PieceReader()
        for frame in frames(connection):
            if frame["dir"] == "master2slave":
                for offset, piece in reader.feed(b64decode(frame["bytes_base64"])):
                    assert offset == len(sent)
                    sent += piece
                    if piece:
                        store.copy.take(offset, piece)
        assert store.commit_log_max_offset() == len(sent) == max(
            frame["offset"] for frame in frames(connection) if frame["dir"] == "slave2master")
        while store.dispatch_behind_bytes():
            store.dispatch(1000)
        store.close()
    log = b"".join([file.read_bytes() for file in sorted((tmp_path / "commitlog").iterdir())])
    assert log[:len(sent)] == sent
    assert not any(log[len(sent):])
    again = copying_store(tmp_path)
    assert again.commit_log_max_offset() == len(sent)
    assert not again.dispatch_behind_bytes()
