"""Faults of what other versions of RocketMQ leave in a store or ask for, and is not served here."""

from tests.mutants import Mutant

_PARTS = "regulus/store/rocksdb_parts.py"
_FORMATS = "regulus/store/later_formats.py"
_LEFT_OUT = "regulus/server/left_out.py"

_PARTS_TESTS = ("tests/unit/store/test_rocksdb_parts.py",)
_FORMATS_TESTS = ("tests/unit/store/test_later_formats.py",)
_LEFT_OUT_TESTS = ("tests/unit/server/test_left_out.py",)
_SWITCH_TESTS = (("tests/unit/cli/test_broker_and_nameserver.py"
                 "::test_a_store_that_is_partly_in_rocksdb_opens_by_the_switch_alone"),)

MUTANTS = [
    # --- a store that RocketMQ 5.5 kept partly in RocksDB ------------------------------------------------------------
    Mutant(name="an empty database is one in use", path=_PARTS,
           old=" and disk.file_size(folder / name) for name", new=" for name", tests=_PARTS_TESTS),
    Mutant(name="RocksDB halves are nobody's", path=_PARTS,
           old='folder = root / "consumequeue" / ROCKSDB_HALF_TOPIC', new='folder = root / "none"', tests=_PARTS_TESTS),
    Mutant(name="a timer that came right before a kill was RocksDB's", path=_PARTS,
           old="ENTERED_WITHIN_MS = 5_000", new="ENTERED_WITHIN_MS = 0", tests=_PARTS_TESTS),
    Mutant(name="a timer log does not tell that the wheel was used", path=_PARTS,
           old=' or _has_timer_record(config.root / "timerlog")', new="", tests=_PARTS_TESTS),
    Mutant(name="a broker without RocksDB whose timer log is lost is refused", path=_PARTS,
           old='not disk.is_directory(config.root / "rocksdbstore") or ', new="", tests=_PARTS_TESTS),
    Mutant(name="pops in RocksDB are no loss", path=_PARTS,
           old='folder = root / "kvStore"', new='folder = root / "none"', tests=_PARTS_TESTS),
    Mutant(name="equal offsets are ahead", path=_PARTS,
           old="offset > known.get(place, 0)", new="offset >= known.get(place, 0)", tests=_PARTS_TESTS),
    Mutant(name="one part hides the others", path=_FORMATS,
           old="'; '.join(parts)", new="parts[0]", tests=_PARTS_TESTS),
    Mutant(name="parts are left out without the switch", path=_FORMATS,
           old="if not config.take_what_is_readable else []", new="if False else []", tests=_PARTS_TESTS),
    Mutant(name="empty folders are a configuration", path=_FORMATS,
           old="if name in _ROCKSDB_CONFIG and disk.names(folder / name):", new="if name in _ROCKSDB_CONFIG:",
           tests=_FORMATS_TESTS),
    Mutant(name="ended halves are counted", path=_LEFT_OUT,
           old="message.physical_offset not in ended", new="True", tests=_LEFT_OUT_TESTS),
    Mutant(name="timers that are passed over are not counted", path=_LEFT_OUT,
           old="never += message.physical_offset not in entered", new="never += 0", tests=_LEFT_OUT_TESTS),
    Mutant(name="all of a topic is looked at", path=_LEFT_OUT,
           old="min(store.max_offset(topic, 0), offset + LOOKED_AT_MAX)", new="store.max_offset(topic, 0)",
           tests=_LEFT_OUT_TESTS),
    Mutant(name="the broker command drops the switch", path="regulus/cli/broker.py",
           old='"true" if take_what_is_readable else None', new="None", tests=_SWITCH_TESTS),
    Mutant(name="the up command drops the switch", path="regulus/cli/up.py",
           old='"true" if take_what_is_readable else None', new="None", tests=_SWITCH_TESTS),
]
