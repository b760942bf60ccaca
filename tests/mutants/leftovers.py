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
_SEND = "regulus/broker/handlers/send_message.py"
_SEND_TESTS = ("tests/unit/broker/handlers/test_send_message.py",)
_TELEMETRY_TESTS = ("tests/unit/proxy/test_telemetry.py",)
_MEMORY_TESTS = ("tests/unit/server/test_little_memory.py",)

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
    Mutant(name="a timer log without a record has one", path=_PARTS,
           old="any(timer_units.decode(head) is not None\n", new="any(True\n", tests=_PARTS_TESTS),
    Mutant(name="what RocksDB has not flushed is nothing", path=_PARTS,
           old='r"\\d+\\.(?:sst|log)"', new='r"\\d+\\.sst"', tests=_PARTS_TESTS),
    Mutant(name="a queue of halves without files has some", path=_PARTS,
           old="any(disk.names(folder / queue) for queue in disk.names(folder, directories=True))",
           new="disk.names(folder, directories=True)", tests=_PARTS_TESTS),
    Mutant(name="what is damaged and left out ends the start", path=_LEFT_OUT,
           old="except (StoreDamaged, RecordError) as error:", new="except StoreDamaged as error:",
           tests=_LEFT_OUT_TESTS),
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
    # --- lite topics -------------------------------------------------------------------------------------------------
    Mutant(name="a message for a lite topic is taken", path=_SEND,
           old="if topic.is_retry or names.LITE_TOPIC not in message.properties:", new="if True:", tests=_SEND_TESTS),
    Mutant(name="a batch may have a message for a lite topic", path=_SEND,
           old="return LITE if found and not is_run else None", new="return None", tests=_SEND_TESTS),
    Mutant(name="no sink brings back a lite message", path=_SEND,
           old="return LITE if found and not is_run else None", new="return LITE if found else None",
           tests=_SEND_TESTS),
    Mutant(name="no lite message is tried again", path=_SEND,
           old="if topic.is_retry or names.LITE_TOPIC not in", new="if names.LITE_TOPIC not in", tests=_SEND_TESTS),
    Mutant(name="a lite topic is nothing unusual", path="regulus/broker/send_facts.py",
           old="names.TIMER_DEL_UNIQUE_KEY,\n    names.LITE_TOPIC}", new="names.TIMER_DEL_UNIQUE_KEY}",
           tests=_SEND_TESTS),
    Mutant(name="the front passes on what names a lite topic as its own", path="regulus/proxy/sending.py",
           old=" or names.LITE_TOPIC in users:", new=":", tests=("tests/unit/proxy/test_sending.py",)),
    Mutant(name="a consumer of lite topics has a stream", path="regulus/proxy/telemetry.py",
           old="if told.client_type in settings.LITE_CONSUMERS:", new="if False:", tests=_TELEMETRY_TESTS),
    Mutant(name="a consumer of lite topics gets routes", path="regulus/proxy/calls.py",
           old="client.client_type in settings.LITE_CONSUMERS:", new="False:", tests=_TELEMETRY_TESTS),
    # --- what cannot be written --------------------------------------------------------------------------------------
    Mutant(name="an index file of another user is found when it is written", path="regulus/store/index.py",
           old="disk.check_writable(self._directory / name)", new="pass", tests=("tests/unit/store/test_index.py",)),
    Mutant(name="an index folder of another user is found when it is full", path="regulus/store/index.py",
           old="disk.check_writable(self._directory)", new="pass", tests=("tests/unit/store/test_index.py",)),
    Mutant(name="a file to which a link led stays without a word", path="regulus/store/old_files.py",
           old="hanging.left = disk.link_target(Path(file.path))", new="hanging.left = \"\"",
           tests=("tests/unit/server/test_retention_loop.py",)),
    Mutant(name="what queues left behind links is not told", path="regulus/store/old_files.py",
           old="if left := disk.link_target(Path(file.path)):", new="if left := \"\":",
           tests=("tests/unit/server/test_retention_loop.py",)),
    Mutant(name="a batch is half written when it finds out that nothing is mapped", path="regulus/store/commit_log.py",
           old="            self._reserve_more(file, end)\n        if file.mapping is None:",
           new="            self._reserve_more(file, end)\n        if False:", tests=_MEMORY_TESTS),
    Mutant(name="a read of what cannot be mapped is a fault of the server", path="regulus/server/request_server.py",
           old="except (StoreDamaged, StoreNotWritable) as error:", new="except StoreDamaged as error:",
           tests=_MEMORY_TESTS),
    Mutant(name="what cannot be mapped cannot be written", path="regulus/store/disk.py",
           old="if error.errno != errno.ENOMEM:", new="if True:", tests=_MEMORY_TESTS),
    Mutant(name="a held pull of what cannot be mapped ends those beside it",
           path="regulus/broker/handlers/pull_message.py",
           old="except (StoreDamaged, StoreNotWritable) as error:", new="except StoreDamaged as error:",
           tests=("tests/unit/broker/handlers/test_pull_message.py",)),
    Mutant(name="a queue that cannot be mapped keeps a pop from others", path="regulus/broker/handlers/pop_message.py",
           old="except (StoreDamaged, StoreNotWritable) as error:", new="except StoreDamaged as error:",
           tests=("tests/unit/broker/test_pops.py",)),
    Mutant(name="a long answer that meets what cannot be mapped is a fault of the server",
           path="regulus/broker/long_answers.py",
           old="except (HeaderError, StoreDamaged, StoreNotWritable) as error:",
           new="except (HeaderError, StoreDamaged) as error:", tests=("tests/unit/broker/test_long_answers.py",)),
    # --- settings of pops --------------------------------------------------------------------------------------------
    Mutant(name="a queue in order that is free wakes whoever waits, wanted or not", path="regulus/broker/state.py",
           old="if self.config.enable_notify_after_pop_order_lock_release:", new="if True:",
           tests=("tests/unit/broker/test_pops.py",)),
    # --- the switch ---------------------------------------------------------------------------------------------------
    Mutant(name="the server commands drop the switch", path="regulus/cli/serve.py",
           old='"true" if take_what_is_readable else None', new="None", tests=_SWITCH_TESTS),
]
