"""Faults of the name server, the frame reader, the flush loop, the client's core and its administration."""

from tests.mutants import Mutant

_ROUTES = "regulus/nameserver/route_table.py"
_FRAMES = "regulus/wire/frame_reader.py"
_FLUSH = "regulus/server/flush_loop.py"
_DURABILITY = "regulus/server/durability.py"
_HEALTH = "regulus/server/health.py"
_DOCUMENTS = "regulus/server/documents.py"
_CHECK = "regulus/server/deep_check_loop.py"
_ASSEMBLY = "regulus/server/assembly.py"
_NAME_SERVER = "regulus/server/name_server.py"
_PROCESS_QUEUE = "regulus/client/core/process_queue.py"
_REBALANCE = "regulus/client/core/rebalance.py"
_RETRY = "regulus/client/core/send_back.py"
_RESEND = "regulus/client/core/resend.py"

_CHECK_TESTS = ("tests/unit/server/test_deep_check_loop.py",)
_NAME_SERVER_TESTS = ("tests/unit/server/test_name_server.py",)
_ROUTE_TESTS = ("tests/unit/nameserver/test_route_table.py", "tests/unit/nameserver/handlers")
_FRAME_TESTS = ("tests/unit/wire/test_frame_reader.py", "tests/property/test_wire_frames.py")
_FLUSH_TESTS = ("tests/unit/server/test_flush_loop.py",)
_DURABILITY_TESTS = ("tests/unit/server/test_durability.py",)
_HEALTH_TESTS = ("tests/unit/server/test_health.py",)
_TOPIC_TESTS = ("tests/unit/cli/test_topic.py",)
_DOCUMENT_TESTS = ("tests/unit/server/test_documents.py",)
_PROCESS_QUEUE_TESTS = ("tests/unit/client/core/test_process_queue.py",)
_REBALANCE_TESTS = ("tests/unit/client/core/test_rebalance.py",)
_RETRY_TESTS = ("tests/unit/client/test_send_back.py", "tests/unit/client/core/test_send_back.py")
_RESEND_TESTS = ("tests/unit/client/core/test_resend.py", "tests/unit/client/test_producer.py")

MUTANTS = [
    # --- routes ------------------------------------------------------------------------------------------------------
    Mutant(name="a registration never lapses", path=_ROUTES,
           old="if live.heard_ms + live.timeout_ms < steady_ms]", new="if False]", tests=_ROUTE_TESTS),
    Mutant(name="a heartbeat does not renew a registration", path=_ROUTES,
           old="            live.heard_ms = steady_ms\n", new="            pass\n", tests=_ROUTE_TESTS),
    Mutant(name="a deposed master takes its place again", path=_ROUTES,
           old="if self._is_outdated(row, registration):", new="if False:", tests=_ROUTE_TESTS),
    Mutant(name="an update without its base is taken", path=_ROUTES,
           old="if len(registration.topics or ()) == 1 and", new="if False and", tests=_ROUTE_TESTS),
    Mutant(name="a slave writes the topics", path=_ROUTES,
           old="if registration.topics is None or not (is_master or is_prime_slave):",
           new="if registration.topics is None:", tests=_ROUTE_TESTS),
    Mutant(name="a broker that went stays in its topics", path=_ROUTES,
           old="self._drop_rows(broker_name, list(self._topics_of.get(broker_name, ())))", new="pass",
           tests=_ROUTE_TESTS),
    Mutant(name="a closed connection leaves its broker", path=_ROUTES,
           old="list(self._channels.get(channel, ())),", new="[],", tests=_ROUTE_TESTS),
    Mutant(name="a topic is deleted in all clusters", path=_ROUTES,
           old="if members is None or broker_name in members:", new="if True:",
           tests=_ROUTE_TESTS),
    Mutant(name="permission to write is taken from the wrong rows", path=_ROUTES,
           old="perm & ~permission.WRITE)", new="perm & permission.WRITE)", tests=_ROUTE_TESTS),
    # --- frames ------------------------------------------------------------------------------------------------------
    Mutant(name="frames have no limit", path=_FRAMES,
           old="if total < 4 or total > self.frame_size_max:", new="if total < 4:", tests=_FRAME_TESTS),
    Mutant(name="a frame of three bytes is read", path=_FRAMES,
           old="if total < 4 or total > self.frame_size_max:", new="if total > self.frame_size_max:",
           tests=_FRAME_TESTS),
    Mutant(name="headers have no limit", path=_FRAMES,
           old="if header_size > _HEADER_SIZE_MAX:", new="if False:", tests=_FRAME_TESTS),
    Mutant(name="a header may be longer than its frame", path=_FRAMES,
           old="if header_end > end:", new="if False:", tests=_FRAME_TESTS),
    Mutant(name="memory is taken for what a length promises", path=_FRAMES,
           old=" and self.buffered * _GROWTH_MAX >= self._wanted", new="", tests=_FRAME_TESTS),
    Mutant(name="what was lent is kept", path=_FRAMES,
           old="elif isinstance(self._data, bytearray):", new="elif False:", tests=_FRAME_TESTS),
    # --- durable answers and documents -------------------------------------------------------------------------------
    Mutant(name="no answer waits for the disk", path="regulus/server/request_server.py",
           old="if reply.durable_at:", new="if False:",
           tests=("tests/unit/server/test_request_server.py", "tests/unit/server/test_assembly.py")),
    Mutant(name="an answer leaves before its message is on disk", path=_DURABILITY,
           old="if waiting.end > end:\n                break", new="if False:\n                break",
           tests=_DURABILITY_TESTS),
    Mutant(name="after one answer that is late others wait for ever", path=_DURABILITY,
           old="self._expire) if self._waiting else None", new="self._expire) if False else None",
           tests=_DURABILITY_TESTS),
    Mutant(name="an answer waits for one condition only", path=_DURABILITY,
           old="return min([condition.end", new="return max([condition.end", tests=_DURABILITY_TESTS),
    Mutant(name="sends are taken after a failed flush", path=_FLUSH,
           old="            self._store.stop_writes(str(error))\n", new="", tests=_FLUSH_TESTS),
    Mutant(name="a failed flush answers with success", path=_DURABILITY,
           old="self._send(len(self._waiting), ResponseCode.SERVICE_NOT_AVAILABLE, reason)",
           new="self._send(len(self._waiting))", tests=(*_FLUSH_TESTS, *_DURABILITY_TESTS)),
    Mutant(name="what waits behind a flush is not flushed", path=_FLUSH,
           old="        if self._durability.is_awaited_behind(flushed):\n            self._begin()\n", new="",
           tests=_FLUSH_TESTS),
    Mutant(name="a loop that stands still is well", path=_HEALTH,
           old="return self.still_looks >=", new="return self.still_looks > 99 +", tests=_HEALTH_TESTS),
    Mutant(name="a loop without work is behind", path=_HEALTH,
           old="progress == self.seen and self.has_work()", new="progress == self.seen", tests=_HEALTH_TESTS),
    Mutant(name="an error ends the looks at loops", path=_HEALTH,
           old="        self._timer = self._loop.call_later(LOOK_INTERVAL_S, self.look)\n",
           new="", tests=_HEALTH_TESTS),
    Mutant(name="a loop that goes on is behind", path=_HEALTH,
           old="                self._behind.discard(each.name)\n", new="", tests=_HEALTH_TESTS),
    Mutant(name="a slave without its master is well", path=_ASSEMBLY,
           old="lambda: not self._replication.is_linked)", new="lambda: self._replication.is_linked)",
           tests=_HEALTH_TESTS),
    Mutant(name="what the disk refuses of queues is well", path=_ASSEMBLY,
           old="        health.watch_fault(lambda: self._care.faults)\n", new="", tests=_HEALTH_TESTS),
    Mutant(name="a look at old files that broke off counts as one", path="regulus/server/retention_loop.py",
           old="        seen = await self._in_worker(",
           new="        self.passes += 1\n        seen = await self._in_worker(",
           tests=("tests/unit/server/test_retention_loop.py",)),
    Mutant(name="a topic gets on all brokers what it has on one", path="regulus/cli/topic.py",
           old="replace(current or new, **named)", new="replace(next(iter(before.values())) or new, **named)",
           tests=_TOPIC_TESTS),
    Mutant(name="a group gets on all brokers what it has on one", path="regulus/cli/group.py",
           old="        current = (await admin.group_configs(address))",
           new="        current = (await admin.group_configs((await admin.master_addresses(cluster))[0]))",
           tests=_TOPIC_TESTS),
    Mutant(name="queues that are not written any more are taken away with their messages",
           path="regulus/cli/topic.py", old="config.read_queue_nums < current.read_queue_nums",
           new="config.write_queue_nums < current.write_queue_nums", tests=_TOPIC_TESTS),
    Mutant(name="a tick that failed counts as one", path="regulus/server/tick_loop.py",
           old="            wait_ms = self._tick(self._clock())\n            self.ticks += 1\n",
           new="            self.ticks += 1\n            wait_ms = self._tick(self._clock())\n",
           tests=("tests/unit/server/test_tick_loop.py",)),
    Mutant(name="offsets are saved before the log they speak of", path=_DOCUMENTS,
           old="        if behind_log:\n", new="        if False:\n", tests=_DOCUMENT_TESTS),
    Mutant(name="documents behind one that could not be saved count as saved", path=_DOCUMENTS,
           old="            faults[document.name] = str(error)\n",
           new="            faults[document.name] = str(error)\n            break\n", tests=_DOCUMENT_TESTS),
    Mutant(name="a stop saves nothing", path=_DOCUMENTS,
           old="        await self._task.stop()\n        await self._save(at_once=True)",
           new="        await self._task.stop()", tests=_DOCUMENT_TESTS),
    Mutant(name="a topic that changed again keeps others waiting", path="regulus/broker/settings_changes.py",
           old="                unsaved.pop(name, None)\n", new="",
           tests=("tests/unit/broker/test_settings_changes.py",)),
    Mutant(name="route changes count as they are read", path=_NAME_SERVER,
           old="line=_ROUTES if is_change else None", new="line=None",
           tests=("tests/unit/server/test_name_server.py",)),
    Mutant(name="an operator's change of routes is not among those in their order",
           path="regulus/nameserver/handlers/__init__.py",
           old="RequestCode.UNREGISTER_BROKER, RequestCode.WIPE_WRITE_PERM_OF_BROKER,\n",
           new="RequestCode.UNREGISTER_BROKER,\n", tests=("tests/unit/server/test_name_server.py",)),
    Mutant(name="a fault in a registration holds up the start", path="regulus/server/nameserver_link.py",
           old="            if is_over:\n", new="            if is_over and self._told is not None:\n",
           tests=("tests/unit/server/test_nameserver_link.py",)),
    Mutant(name="a removal of offsets is saved later", path=_DOCUMENTS,
           old="                or kept.urgent() > self._saved[kept.name])", new="                or False)",
           tests=_DOCUMENT_TESTS),
    Mutant(name="offsets that are saved at once do not wait for the log", path=_DOCUMENTS,
           old="not at_once or any(kept.when is When.LATER for kept in changed)", new="not at_once",
           tests=_DOCUMENT_TESTS),
    Mutant(name="a name server is reached before it knows the broker beside it", path=_ASSEMBLY,
           old="        await self.name_server.open()\n", new="        await self.name_server.start()\n",
           tests=("tests/unit/server/test_assembly.py",)),
    Mutant(name="a start ends before all topics are told", path="regulus/server/nameserver_link.py",
           old="        await self._is_told.wait()\n", new="", tests=("tests/unit/server/test_nameserver_link.py",)),
    Mutant(name="a topic that is made while others are told is not told", path="regulus/server/nameserver_link.py",
           old="            self._is_outdated = True\n", new="            pass\n",
           tests=("tests/unit/server/test_nameserver_link.py",)),
    Mutant(name="an answer that says nothing says that the topics are known", path="regulus/server/registration.py",
           old="    except HeaderError:\n        return False", new="    except HeaderError:\n        return True",
           tests=("tests/unit/server/test_registration.py",)),
    Mutant(name="a master that was deposed stays alive", path=_ROUTES,
           old="            self._take_live((registration.cluster_name, registration.broker_addr))\n            return",
           new="            return", tests=_ROUTE_TESTS),
    Mutant(name="a document that could not be saved is forgotten", path=_DOCUMENTS,
           old="            if document.name not in faults:\n", new="            if True:\n", tests=_DOCUMENT_TESTS),
    Mutant(name="a change counts as saved when the disk refused it", path=_DOCUMENTS,
           old="        if not fault:\n            self", new="        if True:\n            self",
           tests=_DOCUMENT_TESTS),
    Mutant(name="what changed while others were encoded counts as saved", path=_DOCUMENTS,
           old="        change = self._state.settings.count\n",
           new="        change = self._state.settings.count + 1000\n", tests=_DOCUMENT_TESTS),
    Mutant(name="a change is answered before it is saved", path="regulus/server/request_server.py",
           old="        self._when_saved(outcome.change, release)\n", new="        release(\"\")\n",
           tests=("tests/unit/server/test_request_server.py", "tests/crash/test_settings_killed.py")),
    Mutant(name="sends to a topic that is not saved go the straight way", path="regulus/broker/topics.py",
           old="                self.facts[name].is_straight = False\n", new="                pass\n",
           tests=("tests/unit/broker/test_settings_changes.py",)),
    Mutant(name="a change that is not saved is a yes when asked for again", path="regulus/broker/request_table.py",
           old="            settings.use_all()\n", new="            pass\n",
           tests=("tests/unit/broker/test_settings_changes.py",)),
    Mutant(name="each part of a registration has the version that counts", path="regulus/server/registration.py",
           old="timestamp=data_version.timestamp - left", new="timestamp=data_version.timestamp",
           tests=("tests/unit/server/test_registration.py",)),
    Mutant(name="a permission of the broker is registered for no topic", path="regulus/broker/topics.py",
           old="            self._changed_names.clear()", new="            self._changed_names.append(())",
           tests=("tests/unit/server/test_registration.py",)),
    Mutant(name="a deletion that is asked for again is answered before it is saved", path=_NAME_SERVER,
           old="        if self._documents is not None and self._documents.note_changes() and "
               "self._keeper is not None:\n"
               "            self._keeper.settings_changed()\n"
               "        if request.is_oneway:\n            return NO_REPLY\n"
               "        is_kept =",
           new="        is_changed = self._documents is not None and self._documents.note_changes()\n"
               "        if is_changed and self._keeper is not None:\n            self._keeper.settings_changed()\n"
               "        if request.is_oneway:\n            return NO_REPLY\n        is_kept = is_changed and",
           tests=_NAME_SERVER_TESTS),
    Mutant(name="a one-way change is saved by the next request", path=_NAME_SERVER,
           old="        if self._documents is not None and self._documents.note_changes() and "
               "self._keeper is not None:\n"
               "            self._keeper.settings_changed()\n"
               "        if request.is_oneway:\n            return NO_REPLY\n",
           new="        if request.is_oneway:\n            return NO_REPLY\n        if self._documents is not None and "
               "self._documents.note_changes() and self._keeper is not None:\n"
               "            self._keeper.settings_changed()\n", tests=_NAME_SERVER_TESTS),
    Mutant(name="a name server stops without saving", path=_NAME_SERVER,
           old="        if self._keeper is not None:\n            await self._keeper.stop()\n", new="",
           tests=_NAME_SERVER_TESTS),
    Mutant(name="a check that is stopped leaves a step under way", path=_CHECK,
           old="        await self._loop.run_in_executor(self._worker, _nothing)", new="        pass",
           tests=_CHECK_TESTS),
    Mutant(name="what the search behind damage reads is not counted", path=_CHECK,
           old="asyncio.sleep(step.read / BYTES_PER_S_MAX)", new="asyncio.sleep(step.size / BYTES_PER_S_MAX)",
           tests=_CHECK_TESTS),
    Mutant(name="faults of the index make no warning of the check", path=_CHECK,
           old="bad_queues + log_faults + index_faults", new="bad_queues + log_faults", tests=_CHECK_TESTS),
    Mutant(name="a one-way request whose handler breaks is answered", path="regulus/server/request_server.py",
           old='failed", request.code, peer.remote_text)\n    if request.is_oneway:',
           new='failed", request.code, peer.remote_text)\n    if False:',
           tests=("tests/unit/server/test_request_server.py",)),
    Mutant(name="a one-way request for what is damaged is answered", path="regulus/server/request_server.py",
           old='refused: %s", request.code, peer.remote_text, error)\n    if request.is_oneway:',
           new='refused: %s", request.code, peer.remote_text, error)\n    if False:',
           tests=("tests/unit/server/test_request_server.py",)),
    # --- the client's core -------------------------------------------------------------------------------------------
    Mutant(name="an offset passes a message that is not done", path=_PROCESS_QUEUE,
           old="        if order:\n            return order[0]\n", new="", tests=_PROCESS_QUEUE_TESTS),
    Mutant(name="the last message is consumed again", path=_PROCESS_QUEUE,
           old="return self.max_offset + 1 if", new="return self.max_offset if", tests=_PROCESS_QUEUE_TESTS),
    Mutant(name="a cached message is consumed twice", path=_PROCESS_QUEUE,
           old="            if offset in cached:\n                continue\n", new="", tests=_PROCESS_QUEUE_TESTS),
    Mutant(name="the bytes in the cache only grow", path=_PROCESS_QUEUE,
           old="self.size -= cached.pop(", new="cached.pop(", tests=_PROCESS_QUEUE_TESTS),
    Mutant(name="a queue belongs to nobody", path=_REBALANCE,
           old="size + (index < remainder)", new="size", tests=_REBALANCE_TESTS),
    Mutant(name="a queue belongs to two", path=_REBALANCE,
           old="index * size + min(index, remainder)", new="index * size", tests=_REBALANCE_TESTS),
    Mutant(name="two clients see two orders", path=_REBALANCE,
           old='return text.encode("utf-16-be", "surrogatepass")', new='return text.lower().encode("utf-16-be")',
           tests=_REBALANCE_TESTS),
    Mutant(name="a retry that the client sends waits at level 3 always", path=_RETRY,
           old="FIRST_RETRY_LEVEL + message.reconsume_times", new="FIRST_RETRY_LEVEL", tests=_RETRY_TESTS),
    Mutant(name="a retry that the client sends counts for nothing", path=_RETRY,
           old="str(message.reconsume_times + 1)", new="str(message.reconsume_times)", tests=_RETRY_TESTS),
    Mutant(name="a dead letter that the client sends is tried again", path=_RETRY,
           old="        max_reconsume_times = 0\n", new="", tests=_RETRY_TESTS),
    Mutant(name="one attempt takes the time of all", path=_RESEND,
           old="return max(1, left_ms // attempts_left)", new="return left_ms", tests=_RESEND_TESTS),
    Mutant(name="a throttled broker is asked at once again", path=_RESEND,
           old="return 0 if rest is None else max(0, rest.until_ms - now_ms)", new="return 0", tests=_RESEND_TESTS),
    # --- administration ----------------------------------------------------------------------------------------------
    Mutant(name="a reset stores offsets where members are online", path="regulus/client/group_admin.py",
           old=" if route.master(queue.broker_name) == address]", new="]", tests=("tests/unit/client/test_admin.py",)),
]
