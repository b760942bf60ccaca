"""Faults of a master and its slaves."""

from tests.mutants import Mutant

_COPY = "regulus/store/log_copy.py"
_LOG = "regulus/store/commit_log.py"
_STORE = "regulus/store/file_message_store.py"
_SERVER = "regulus/server/ha_server.py"
_CLIENT = "regulus/server/ha_client.py"
_DURABILITY = "regulus/server/durability.py"
_COPIES = ("tests/unit/store/test_log_copy.py",)
_PAIRS = ("tests/unit/server/test_replication.py",)
_CUTS = ("tests/unit/store/test_wanted_cut.py", "tests/crash/test_wanted_cut.py")
_ANSWERS = ("tests/unit/server/test_durability.py",)

MUTANTS = [
    Mutant(name="a copy takes a piece wherever it lies", path=_COPY,
           old="        if offset != self.end:\n            self._begin(offset)\n", new="", tests=_COPIES),
    Mutant(name="a copy takes a record of another place", path=_COPY,
           old="if request.physical_offset != offset:", new="if False:", tests=_COPIES),
    Mutant(name="a copy keeps the rest of a link that ended", path=_COPY,
           old="        self._rest = bytearray()\n        self._wanted = _HEAD_SIZE\n        self._compared = -1\n",
           new="        self._compared = -1\n", tests=_COPIES),
    Mutant(name="a copy ends a file where it likes", path=_COPY,
           old="            if size != room:\n", new="            if False:\n", tests=_COPIES),
    Mutant(name="a copy has a file before its first one", path=_LOG,
           old="return self._next is None and not self.begins_anywhere", new="return self._next is None",
           tests=_COPIES),
    Mutant(name="a full disk that is cleared makes a master of a slave", path=_STORE,
           old="self._refusal = self.copy.fault or self._wish or self._copied",
           new="self._refusal = self.copy.fault or self._wish",
           tests=_COPIES),
    Mutant(name="a slave reports what its disk does not have", path=_CLIENT,
           old="(has_grown and not self._waits_for_disk)", new="has_grown",
           tests=("tests/unit/server/test_ha_client.py",)),
    Mutant(name="a slave that is too far behind is waited for", path=_SERVER,
           old="reported < 0 or self.store.commit_log_max_offset() - reported > self._behind_max", new="reported < 0",
           tests=("tests/unit/server/test_ha_server.py",)),
    Mutant(name="a master that lost its slaves says that they have it", path=_SERVER,
           old="self._replicated.give_up(ResponseCode.SLAVE_NOT_AVAILABLE)", new="self._replicated.reached(1 << 62)",
           tests=_PAIRS),
    Mutant(name="a slave of another log is served", path=_SERVER,
           old="if not first <= self._position <= end:", new="if False:", tests=_PAIRS),
    Mutant(name="what a refused slave says counts", path=_SERVER,
           old="        is_first = self.reported < 0\n",
           new="        is_first, self.reported = self.reported < 0, reported\n",
           tests=("tests/unit/server/test_ha_server.py",)),
    Mutant(name="a slave goes on with another log of the same length", path=_COPY,
           old="if here is None or here != memoryview(piece)[:len(here)]:", new="if here is None:",
           tests=_COPIES + _PAIRS),
    Mutant(name="a slave waits for ever for what its master does not have", path=_COPY,
           old="if offset == self._silent_at:", new="if False:", tests=_COPIES),
    Mutant(name="a slave reports a log that may be another one", path=_CLIENT,
           old="        if asked is not None:\n            return asked\n", new="",
           tests=("tests/unit/server/test_ha_client.py",)),
    Mutant(name="what a slave wishes counts as what it has", path=_SERVER,
           old="self.copied = -1 if is_first else reported", new="self.copied = reported",
           tests=("tests/unit/server/test_ha_server.py",)),
    Mutant(name="a cut is forgotten before it is on disk", path=_STORE,
           old="            self._recovery.finish()\n            self._finish_cut()\n",
           new="            self._finish_cut()\n            self._recovery.finish()\n", tests=_CUTS),
    Mutant(name="what is appended before a cut is forgotten is cut with it", path=_STORE,
           old="            self._cut_file.carried_out(self._wanted_cut)\n", new="", tests=_CUTS),
    Mutant(name="times of what was cut count on", path=_STORE,
           old="            self._checkpoint.end_at(self._log.last_store_timestamp)\n", new="            pass\n",
           tests=_CUTS),
    Mutant(name="a wish to cut lets damage before it pass", path="regulus/store/recovery.py",
           old="if certainty and cut.end not in (self._cut_at, self._end_at):",
           new="if certainty and self._end_at == LONG_MAX and cut.end != self._cut_at:", tests=_CUTS),
    Mutant(name="records of one size at one place are the same", path="regulus/store/log_parting.py",
           old="    return (yield Look(place, size)) == log.read(place, size)\n",
           new="    return (yield Look(place, size))[:8] == log.read(place, size)[:8]\n",
           tests=("tests/unit/store/test_log_parting.py",)),
    Mutant(name="a log is cut within a record", path="regulus/store/log_parting.py",
           old="return log.unit_at(position + _alike(ours, theirs))", new="return position + _alike(ours, theirs)",
           tests=("tests/unit/store/test_log_parting.py",)),
    Mutant(name="what a link brought before it ended is forgotten", path="regulus/server/master_log.py",
           old="        self._data = rest\n", new="", tests=("tests/unit/server/test_master_log.py",)),
    Mutant(name="a slave waits for a file that was deleted", path=_SERVER,
           old="if self._position < self._server.store.commit_log_max_offset():", new="if False:",
           tests=("tests/unit/server/test_ha_server.py",)),
    Mutant(name="who waits when the last slave goes hears that it has it", path=_DURABILITY,
           old="            self._durability.mark_behind(self.end, absent)\n", new="", tests=_ANSWERS),
    Mutant(name="an answer that comes late waits for the next one", path=_DURABILITY,
           old="if self._reached() >= end:", new="if False:", tests=_ANSWERS),
]
