import pytest

from regulus.errors import FrameError
from regulus.wire.ha_frame import PIECE_SIZE_MAX, PieceReader, ReportReader, encode_head, encode_report


@pytest.mark.parametrize("size", [1, 3, 8, 100])
def test_reports_are_whole_groups_of_bytes_and_the_last_one_counts(size: int) -> None:
    reader = ReportReader()
    data = encode_report(5) + encode_report(70_000_000_000) + encode_report(9)[:7]
    told = [reported for start in range(0, len(data), size)
            if (reported := reader.feed(data[start:start + size])) is not None]
    assert told[-1] == 70_000_000_000
    assert reader.feed(encode_report(9)[7:]) == 9
    with pytest.raises(FrameError, match="reports -1"):
        reader.feed(encode_report(-1))


@pytest.mark.parametrize("size", [1, 5, 12, 1000])
def test_pieces_come_out_as_they_went_in(size: int) -> None:
    pieces = [(0, b"a" * 30), (30, b""), (30, b"b"), (1 << 40, b"c" * 500)]
    data = b"".join([encode_head(offset, len(piece)) + piece for offset, piece in pieces])
    reader = PieceReader()
    found = [piece for start in range(0, len(data), size) for piece in reader.feed(data[start:start + size])]
    assert found == pieces


@pytest.mark.parametrize(("offset", "size"), [(-1, 5), (0, -1), (0, PIECE_SIZE_MAX + 1)])
def test_what_is_no_piece_is_refused_at_its_head(offset: int, size: int) -> None:
    with pytest.raises(FrameError, match="not a piece of a log"):
        PieceReader().feed(encode_head(offset, size))
