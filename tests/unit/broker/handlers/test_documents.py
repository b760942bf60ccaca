"""What a broker of ours keeps, for its slaves."""

import json

from regulus.broker.handlers import documents
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.headers import GetDocumentRequest, GetDocumentResponse


def asked(rig, name, version=""):
    answer = rig.ask(RequestCode.GET_DOCUMENT, GetDocumentRequest(name, version).ext())
    return GetDocumentResponse.decode(answer).version, answer.body


def test_a_document_comes_with_its_version_and_once(rig):
    rig.broker.archived_offset.advance(100, 200)
    version, body = asked(rig, "regulusArchive")
    assert json.loads(body) == {"archivedPhysicalOffset": 100, "archiveIdentity": ""}
    assert asked(rig, "regulusArchive", version) == (version, b"")
    rig.broker.archived_offset.advance(150, 200)
    later, body = asked(rig, "regulusArchive", version)
    assert later != version
    assert json.loads(body) == {"archivedPhysicalOffset": 150, "archiveIdentity": ""}


def test_a_broker_that_was_started_anew_has_other_versions(rig, make_rig):
    other = make_rig()
    other.broker.statistics.boot_timestamp += 1
    assert asked(rig, "topics")[0] != asked(other, "topics")[0]


def test_whoever_looks_at_a_document_changes_nothing_of_it(rig):
    """The place of pops goes on when it is saved."""
    place = rig.broker.documents()["regulusPops"]
    rig.send(topic="T")
    rig.broker.pop_places.note()
    for _ in range(3):
        asked(rig, "regulusPops")
    assert rig.broker.documents()["regulusPops"] == place


def test_what_is_no_document_is_refused(rig):
    answer = rig.ask(RequestCode.GET_DOCUMENT, GetDocumentRequest("../topics").ext())
    assert answer.code == ResponseCode.INVALID_PARAMETER


def test_a_document_that_goes_into_no_frame_is_refused(rig, monkeypatch):
    rig.broker.archived_offset.advance(100, 200)
    size = len(asked(rig, "regulusArchive")[1])
    monkeypatch.setattr(documents, "DOCUMENT_SIZE_MAX", size)
    assert asked(rig, "regulusArchive")[1]
    monkeypatch.setattr(documents, "DOCUMENT_SIZE_MAX", size - 1)
    answer = rig.ask(RequestCode.GET_DOCUMENT, GetDocumentRequest("regulusArchive").ext())
    assert (answer.code, answer.remark) == (
        ResponseCode.SYSTEM_ERROR, f"the document regulusArchive has {size} bytes, more than {size - 1}")
