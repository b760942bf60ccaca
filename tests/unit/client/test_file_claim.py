import os

from regulus.client.file_claim import FileClaim


def test_one_holder_at_a_time_in_one_process_too(tmp_path):
    first, second = FileClaim(tmp_path / "f"), FileClaim(tmp_path / "f")
    assert first.take()
    assert first.take()
    assert not second.take()
    first.release()
    first.release()
    assert second.take()


def test_claims_on_other_files_are_others(tmp_path):
    assert FileClaim(tmp_path / "f").take()
    assert FileClaim(tmp_path / "g").take()


def test_a_forked_child_holds_nothing_for_its_parent(tmp_path):
    """Or a claim would outlive the process that has it, for as long as any child of it runs."""
    claim, other = FileClaim(tmp_path / "f"), FileClaim(tmp_path / "f")
    assert claim.take()
    may_end, ends = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(ends)
        os.read(may_end, 1)
        os._exit(0)
    claim.release()
    is_free = other.take()
    os.close(ends)
    os.waitpid(child, 0)
    os.close(may_end)
    assert is_free
