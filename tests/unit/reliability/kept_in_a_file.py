"""Claims that outlive the process that holds them, as those of Redis do: a file of keys, under a lock of the system."""

import fcntl
import json
import time
from pathlib import Path

DONE = "done"


class FileClaims:
    def __init__(self, path, *, lease_ms=300_000):
        self.lease_ms = lease_ms
        self._path = Path(path)

    def check(self):
        pass

    def win(self, message_id, token):
        with self._keys() as keys:
            _, ends = keys.get(message_id, ("", 0.0))
            if time.time() < ends:
                return False
            keys[message_id] = token, time.time() + self.lease_ms / 1000
            return True

    def is_done(self, message_id):
        with self._keys() as keys:
            token, ends = keys.get(message_id, ("", 0.0))
            return token == DONE and time.time() < ends

    def release(self, message_id, token):
        with self._keys() as keys:
            if keys.get(message_id, ("",))[0] == token:
                del keys[message_id]

    def finish(self, message_id, token):
        with self._keys() as keys:
            if keys.get(message_id, ("",))[0] == token:
                keys[message_id] = DONE, time.time() + 3_600

    def forget_all(self):
        with self._keys() as keys:
            keys.clear()

    def _keys(self):
        return _Keys(self._path)


class _Keys:
    """The file's keys, which are written when the block ends."""

    def __init__(self, path):
        self._path = path

    def __enter__(self):
        self._file = self._path.open("a+")
        fcntl.flock(self._file, fcntl.LOCK_EX)
        self._file.seek(0)
        self._keys = json.loads(self._file.read() or "{}")
        return self._keys

    def __exit__(self, kind, error, trace):
        self._file.truncate(0)
        self._file.write(json.dumps(self._keys))
        self._file.close()
