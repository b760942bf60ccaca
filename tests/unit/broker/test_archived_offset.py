"""How far the log is archived: forward only, never past the disk, remembered."""

import pytest

from regulus.broker.archived_offset import NONE, ArchivedOffset
from regulus.errors import HeaderError
from regulus.wire import encoded_table


def test_it_is_never_past_what_is_on_disk() -> None:
    archived = ArchivedOffset()
    assert archived.physical_offset == NONE
    assert archived.advance(100, 100) == ""
    assert archived.advance(100, 100) == ""
    assert archived.changes == 1
    assert "is beyond 200" in archived.advance(201, 200)
    assert archived.advance(-1, 200) != ""
    assert (archived.physical_offset, archived.changes) == (100, 1)


def test_what_is_behind_is_what_is_there_and_not_archived() -> None:
    archived = ArchivedOffset()
    assert archived.behind_bytes(0, 500) == NONE
    archived.advance(100, 500)
    assert archived.behind_bytes(0, 500) == 400
    assert archived.behind_bytes(200, 500) == 300, "what was deleted cannot be archived any more"
    archived.advance(500, 500)
    assert archived.behind_bytes(200, 500) == 0


def test_it_is_remembered_but_not_beyond_the_end_of_the_log() -> None:
    archived, again = ArchivedOffset(), ArchivedOffset()
    archived.advance(100, 100)
    again.load(encoded_table.text(archived.document()), 100)
    assert again.physical_offset == 100
    again.load(encoded_table.text(archived.document()), 60)
    assert again.physical_offset == 60


def test_whose_it_is_is_remembered() -> None:
    archived, again, old = ArchivedOffset(), ArchivedOffset(), ArchivedOffset()
    archived.advance(100, 100, "mine")
    again.load(encoded_table.text(archived.document()), 100)
    assert (again.trusted("mine"), again.trusted("another"), again.trusted("")) == (100, NONE, NONE)
    again.follow(encoded_table.text(archived.document()), 100)
    assert again.changes == 0
    archived.advance(100, 100, "another")
    again.follow(encoded_table.text(archived.document()), 100)
    assert (again.identity, again.changes) == ("another", 1)
    old.load('{"archivedPhysicalOffset": 7}', 100)
    assert (old.physical_offset, old.trusted("")) == (7, NONE)


def test_another_archive_begins_where_it_is() -> None:
    archived = ArchivedOffset()
    archived.advance(100, 100, "mine")
    assert archived.advance(50, 100, "another") == ""
    assert (archived.trusted("another"), archived.trusted("mine"), archived.changes) == (50, NONE, 2)
    assert archived.advance(49, 100, "another") == ""      # as one that was brought back from a backup
    assert "are the most" in archived.advance(60, 100, "x" * 129)


@pytest.mark.parametrize("text", ["[]", "{}", '{"archivedPhysicalOffset":"7"}',
                                  '{"archivedPhysicalOffset":7,"archiveIdentity":7}'])
def test_a_damaged_document_is_refused(text: str) -> None:
    with pytest.raises(HeaderError):
        ArchivedOffset().load(text, 100)
