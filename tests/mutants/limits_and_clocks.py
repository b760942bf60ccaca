"""Faults of what goes by which clock, of what is promised and not served, of unfinished frames and of the stop."""

from tests.mutants import Mutant

_STATE = "regulus/broker/state.py"
_HEART_BEAT = "regulus/broker/handlers/heart_beat.py"
_LOCK = "regulus/broker/handlers/lock_batch_mq.py"
_PULL = "regulus/broker/handlers/pull_message.py"
_TRANSACTIONS = "regulus/broker/transactions.py"
_NAME_SERVER = "regulus/nameserver/state.py"
_ATTRIBUTES = "regulus/broker/attributes.py"
_SETTINGS = "regulus/model/fixed_settings.py"
_JSON = "regulus/wire/fastjson.py"
_UNFINISHED = "regulus/transport/unfinished_frames.py"
_CONNECTION = "regulus/transport/connection.py"
_ASSEMBLY = "regulus/server/assembly.py"

_CLOCK_TESTS = ("tests/unit/broker/test_clock_jumps.py",)
_ATTRIBUTE_TESTS = ("tests/unit/broker/test_attributes.py",)
_UNFINISHED_TESTS = ("tests/unit/transport/test_unfinished_frames.py",)
_CONNECTION_TESTS = ("tests/unit/transport/test_connection.py",)
_ASSEMBLY_TESTS = ("tests/unit/server/test_assembly.py",)

MUTANTS = [
    # --- clocks ------------------------------------------------------------------------------------------------------
    Mutant(name="timed work goes by the time of day", path=_STATE,
           old="        steady_ms = self.steady_ms\n", new="        steady_ms = now_ms\n", tests=_CLOCK_TESTS),
    Mutant(name="a client is heard by the time of day", path=_HEART_BEAT,
           old="                    broker.steady_ms, peer.user)",
           new="                    now_ms, peer.user)", tests=_CLOCK_TESTS),
    Mutant(name="a lock is taken by the time of day", path=_LOCK,
           old="body.mq_set, broker.steady_ms, peer.channel)", new="body.mq_set, now_ms, peer.channel)",
           tests=_CLOCK_TESTS),
    Mutant(name="a pull is held by no clock", path=_PULL,
           old="broker.steady_ms + max(0,", new="0 + max(0,", tests=_CLOCK_TESTS),
    Mutant(name="a run of checks takes what it put itself", path=_TRANSACTIONS,
           old="step = self._run(self._run_end, now_ms)",
           new="step = self._run(self._store.max_offset(TRANS_HALF_TOPIC, _QUEUE_ID), now_ms)",
           tests=("tests/unit/broker/test_transactions.py",)),
    Mutant(name="brokers lapse by the time of day", path=_NAME_SERVER,
           old="self.routes.expire(self.steady_ms)", new="self.routes.expire(now_ms)",
           tests=("tests/unit/nameserver/handlers/test_registration.py",)),
    # --- promised and not served -------------------------------------------------------------------------------------
    Mutant(name="an attribute is taken that is not served", path=_ATTRIBUTES,
           old="        elif not attribute.is_served(value):\n", new="        elif False:\n", tests=_ATTRIBUTE_TESTS),
    Mutant(name="an attribute that is not served cannot be taken away", path=_ATTRIBUTES,
           old=" and not (deletes and is_undone)", new="", tests=_ATTRIBUTE_TESTS),
    Mutant(name="any value of a fixed setting is taken", path=_SETTINGS,
           old="if fixed is None or", new="if fixed is None or text or",
           tests=("tests/unit/cli/test_config_file.py",)),
    Mutant(name="infinity is a number", path=_JSON, old="if not math.isfinite(number):", new="if False:",
           tests=("tests/unit/wire/bodies/test_hostile_values.py", "tests/unit/wire/test_fastjson.py")),
    # --- unfinished frames -------------------------------------------------------------------------------------------
    Mutant(name="large frames have no limit", path=_UNFINISHED,
           old="return self.large_size + self.kept_size + wanted <= ", new="return wanted <= ",
           tests=_UNFINISHED_TESTS),
    Mutant(name="what waits to be worked at takes no room", path=_UNFINISHED,
           old="self.large_size + self.kept_size + wanted", new="self.large_size + wanted", tests=_UNFINISHED_TESTS),
    Mutant(name="room that a request gives back is given to nobody", path=_UNFINISHED,
           old="        if has_more_room:\n", new="        if False:\n", tests=_UNFINISHED_TESTS),
    Mutant(name="registrations that wait take no room", path="regulus/server/name_server.py",
           old="        self._unfinished.keep(self._long_answers.bodies_size)\n", new="",
           tests=("tests/unit/server/test_name_server.py",)),
    Mutant(name="those that wait are overtaken", path=_UNFINISHED,
           old=" and not self._waiting and", new=" and", tests=_UNFINISHED_TESTS),
    Mutant(name="what the others have sent has no limit", path=_UNFINISHED,
           old="while self.small_size > self._config.unfinished_size_max:", new="while False:",
           tests=_UNFINISHED_TESTS),
    Mutant(name="the newest is closed", path=_UNFINISHED,
           old="self._close(next(iter(self._small)),", new="self._close(next(reversed(self._small)),",
           tests=_UNFINISHED_TESTS),
    Mutant(name="who waits for us is closed for it", path=_UNFINISHED,
           old=" and holder not in self._waiting]", new="]", tests=_UNFINISHED_TESTS),
    Mutant(name="the time in which a frame waited for room counts", path=_CONNECTION,
           old="        self.active_time = self.frame_began = self._loop.time()\n", new="", tests=_CONNECTION_TESTS),
    Mutant(name="a frame begins anew whenever the peer takes a little", path=_CONNECTION,
           old="    def resume_writing(self) -> None:\n",
           new="    def resume_writing(self) -> None:\n        self.frame_began = self._loop.time()\n",
           tests=_CONNECTION_TESTS),
    Mutant(name="who waits for room is read", path=_CONNECTION,
           old="            self._waits_for_room = True\n            self._pause_reading()\n",
           new="            pass\n", tests=_CONNECTION_TESTS),
    Mutant(name="a closed connection keeps its room", path=_CONNECTION,
           old="        self._end_frame()\n        self._wake_drained()\n", new="        self._wake_drained()\n",
           tests=_CONNECTION_TESTS),
    Mutant(name="bodies that are read slowly may be as long as others", path="regulus/broker/handlers/named_body.py",
           old="    if fastjson.is_slow(body):\n", new="    if False:\n",
           tests=("tests/unit/broker/handlers/test_named_body.py",)),
    Mutant(name="registrations that are read slowly stop a name server", path=_JSON,
           old="    if _names_much(data):\n        raise HeaderError(f\"JSON",
           new="    if False:\n        raise HeaderError(f\"JSON",
           tests=("tests/unit/wire/test_fastjson.py",)),
    Mutant(name="lists that are read slowly may be as long as others", path=_JSON,
           old="        if _names_much(data):\n", new="        if False:\n",
           tests=("tests/unit/broker/handlers/test_named_body.py",)),
    Mutant(name="a step reads any number of values", path=_JSON, old="        for _ in range(ITEMS_A_STEP):\n",
           new="        while True:\n", tests=("tests/unit/wire/test_fastjson.py",)),
    Mutant(name="a step reads any length of text", path=_JSON, old="            if position - begin >= TEXT_A_STEP:\n",
           new="            if False:\n", tests=("tests/unit/wire/test_fastjson.py",)),
    Mutant(name="long bodies of plain JSON are refused", path=_JSON,
           old="from None\n    return False\n", new="from None\n    return True\n",
           tests=("tests/unit/wire/test_fastjson.py", "tests/unit/broker/handlers/test_named_body.py")),
    # --- the stop ----------------------------------------------------------------------------------------------------
    Mutant(name="requests are taken while the server stops", path=_ASSEMBLY,
           old="self._listener.ignore_input()", new="self._listener.stop_accepting()", tests=_ASSEMBLY_TESTS),
    Mutant(name="who waits for room is idle", path="regulus/transport/connection.py",
           old="return self.active_time < time and not self._waits_for_room", new="return self.active_time < time",
           tests=("tests/unit/transport/test_listener.py",)),
]
