"""The first example of the README runs as it stands there."""

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"


def test_a_message_is_sent_and_received(regulus_server):
    example = re.search(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert example is not None
    program = example[1].replace("127.0.0.1:9876", regulus_server.name_server_address)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines()[1:] == ["b'one tea'"], done.stderr
