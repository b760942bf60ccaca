"""The log as a whole: where it is, how far it is archived, its bytes."""

import pytest

from regulus.broker.state import ARCHIVE_DOCUMENT
from regulus.model.retention_rules import ArchiveGate
from regulus.record import message_record
from regulus.wire.codes import RequestCode, ResponseCode


def state(rig):
    return rig.ask(RequestCode.GET_LOG_STATE).ext


def update(rig, offset):
    return rig.ask(RequestCode.UPDATE_ARCHIVED_OFFSET, {"archivedPhysicalOffset": str(offset)})


def read(rig, offset, size_max=1 << 20):
    return rig.ask(RequestCode.READ_COMMIT_LOG, {"physicalOffset": str(offset), "sizeMax": str(size_max)})


def test_the_state_of_the_log(make_rig):
    rig = make_rig(archive_gate=ArchiveGate.on)
    rig.send()
    end = str(rig.store.commit_log_max_offset())
    assert state(rig) == {"brokerName": "broker-a", "minPhysicalOffset": "0", "maxPhysicalOffset": end,
                          "flushedPhysicalOffset": end, "archivedPhysicalOffset": "-1", "archiveGate": "on",
                          "archiveIdentity": ""}


def test_the_archived_offset_goes_forward_and_is_saved(rig, make_rig):
    rig.send()
    end = rig.store.commit_log_max_offset()
    (kept,) = [kept for kept in rig.broker.kept_parts if kept.name == ARCHIVE_DOCUMENT]
    assert kept.part.changes == kept.saved
    assert update(rig, end).code == ResponseCode.SUCCESS
    assert state(rig)["archivedPhysicalOffset"] == str(end)
    for offset in (end + 1, -1):
        assert update(rig, offset).code == ResponseCode.INVALID_PARAMETER
    assert kept.part.changes != kept.saved
    saved = rig.broker.documents()[ARCHIVE_DOCUMENT]
    later = make_rig()
    later.send()
    later.broker.load_documents({ARCHIVE_DOCUMENT: saved})
    assert state(later)["archivedPhysicalOffset"] == str(end)


MINE, ANOTHER = "a" * 32, "b" * 32


def tell(rig, offset, identity):
    ext = {"archivedPhysicalOffset": str(offset), "archiveIdentity": identity}
    return rig.ask(RequestCode.UPDATE_ARCHIVED_OFFSET, ext if identity else {"archivedPhysicalOffset": str(offset)})


@pytest.mark.parametrize(("trusted", "teller"), [(MINE, ANOTHER), (MINE, ""), ("", MINE), ("", "")])
def test_a_gate_that_is_on_hears_no_archive_that_the_settings_do_not_name(make_rig, trusted, teller):
    """One that was written into a folder that nobody meant would have the log deleted."""
    rig = make_rig(archive_gate=ArchiveGate.on, archive_identity=trusted)
    rig.send()
    refused = tell(rig, 1, teller)
    assert refused.code == ResponseCode.NO_PERMISSION
    assert refused.remark == (f"archiveGate is on and opens only for the archive {trusted or '(none)'} "
                              f"(archiveIdentity), and this one is {teller or '(without an identity)'}")
    assert state(rig)["archivedPhysicalOffset"] == "-1"


def test_a_gate_that_is_on_hears_the_archive_that_it_trusts(make_rig):
    rig = make_rig(archive_gate=ArchiveGate.on, archive_identity=MINE)
    rig.send()
    assert tell(rig, 1, MINE).code == ResponseCode.SUCCESS
    assert (state(rig)["archivedPhysicalOffset"], state(rig)["archiveIdentity"]) == ("1", MINE)
    assert rig.broker.archived_offset.trusted(MINE) == 1


def test_what_another_archive_told_counts_for_no_gate(rig):
    """While the gate is off any archive may tell; when it is switched on, only what the trusted one told counts."""
    rig.send()
    end = rig.store.commit_log_max_offset()
    assert tell(rig, end, ANOTHER).code == ResponseCode.SUCCESS
    archived = rig.broker.archived_offset
    assert (archived.trusted(ANOTHER), archived.trusted(MINE), archived.trusted("")) == (end, -1, -1)
    assert tell(rig, 1, MINE).code == ResponseCode.SUCCESS
    assert (archived.trusted(ANOTHER), archived.trusted(MINE)) == (-1, 1)
    assert tell(rig, 1, "c" * 129).code == ResponseCode.INVALID_PARAMETER


def test_a_read_gives_whole_records(rig):
    for number in range(5):
        rig.send(body=b"m%d" % number)
    bodies, offset = [], 0
    while (answer := read(rig, offset, 1)).body:
        bodies += [message.body for message in message_record.decode_all(answer.body)]
        offset = int(answer.ext["nextPhysicalOffset"])
    assert bodies == [b"m0", b"m1", b"m2", b"m3", b"m4"]
    assert offset == rig.store.commit_log_max_offset()
    assert len(read(rig, 0).body) == offset


def test_nothing_is_read_that_a_power_cut_may_take(rig, monkeypatch):
    """An archive would have what the log then never had."""
    rig.send(body=b"on disk")
    flushed = rig.store.commit_log_max_offset()
    rig.send(body=b"in memory")
    end = rig.store.commit_log_max_offset()
    monkeypatch.setattr(type(rig.store), "flushed_offset", flushed)
    answer = read(rig, 0)
    assert [message.body for message in message_record.decode_all(answer.body)] == [b"on disk"]
    assert answer.ext["nextPhysicalOffset"] == str(flushed)
    assert read(rig, flushed).body == b""
    assert read(rig, end).code == ResponseCode.PULL_OFFSET_MOVED
    assert update(rig, end).code == ResponseCode.INVALID_PARAMETER


@pytest.mark.parametrize(("offset", "size_max", "code"), [
    (-1, 100, ResponseCode.PULL_OFFSET_MOVED), (1 << 40, 100, ResponseCode.PULL_OFFSET_MOVED),
    (1, 100, ResponseCode.INVALID_PARAMETER), (0, 0, ResponseCode.INVALID_PARAMETER)])
def test_what_cannot_be_read_is_refused(rig, offset, size_max, code):
    rig.send()
    answer = read(rig, offset, size_max)
    assert answer.code == code
    assert answer.remark
    if code == ResponseCode.PULL_OFFSET_MOVED:
        assert int(answer.ext["nextPhysicalOffset"]) == (0 if offset < 0 else rig.store.commit_log_max_offset())
