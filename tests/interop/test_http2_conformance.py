"""The rules of HTTP/2 (RFC 9113) and of HPACK (RFC 7541), as the tests of others read them."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from toolchain import h2spec, our_environment

pytestmark = pytest.mark.interop


def test_h2spec_finds_nothing() -> None:
    with subprocess.Popen([sys.executable, str(Path(__file__).with_name("http2_pages.py"))], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True, env=our_environment()) as server:
        assert server.stdout is not None
        port = server.stdout.readline().strip()
        done = subprocess.run([str(h2spec()), "-h", "127.0.0.1", "-p", port, "-P", "/", "--timeout", "5"],
                              capture_output=True, text=True, timeout=600, check=False)
        server.communicate("", timeout=30)
    count = re.search(r"(\d+) tests, (\d+) passed, (\d+) skipped, (\d+) failed", done.stdout)
    assert count is not None, done.stdout + done.stderr
    assert int(count[1]) >= 145
    assert count[1] == count[2], done.stdout[done.stdout.rfind("Failures"):]
    assert done.returncode == 0
