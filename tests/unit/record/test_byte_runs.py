from regulus.record import byte_runs


def test_a_byte_is_found_within_the_limits():
    ranges = [(0, 6), (3, 6), (3, 5), (6, 6), (5, 2)]
    assert [byte_runs.find_byte(b"abcabc", 99, start, limit) for start, limit in ranges] == [2, 5, 5, 6, 5]


def test_runs_are_compared():
    assert byte_runs.is_same_run(b"abcabd", 0, 3, 2)
    assert not byte_runs.is_same_run(b"abcabd", 0, 3, 3)


def test_a_run_is_copied():
    target = bytearray(b"......")
    byte_runs.copy_run(b"abcdef", 2, memoryview(target), 1, 3)
    assert target == b".cde.."


def test_a_piece_is_copied():
    target = bytearray(b"......")
    byte_runs.copy_piece(b"abcdef", 2, memoryview(target), 1, 3)
    assert target[:4] == b".cde"
