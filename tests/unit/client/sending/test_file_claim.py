import os
import signal
import subprocess
import sys
import textwrap

from regulus.client.sending.file_claim import FileClaim


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


def test_a_claim_ends_with_its_process_though_a_forked_child_of_it_lives(tmp_path):
    program = f"""
        import os, signal
        from pathlib import Path
        from regulus.client.sending.file_claim import FileClaim

        claim = FileClaim(Path("{tmp_path}/f"))
        assert claim.take()
        parent = os.getpid()
        if os.fork() == 0:
            os.kill(parent, signal.SIGKILL)
            print("alone", flush=True)
            os.read(0, 1)
        os.read(0, 1)
    """
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"alone\n"
        assert process.wait() == -signal.SIGKILL
        is_free = FileClaim(tmp_path / "f").take()
    assert is_free


def test_a_child_that_ends_leaves_its_parent_the_claim(tmp_path):
    claim = FileClaim(tmp_path / "f")
    assert claim.take()
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    assert not FileClaim(tmp_path / "f").take()
    claim.release()
    assert FileClaim(tmp_path / "f").take()
