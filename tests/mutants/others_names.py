"""What gives somebody what is another's, or lets one peer keep the others waiting: docs/places.md, "Others' names"."""

from tests.mutants import Mutant

_TRANSACTIONS = "regulus/broker/transactions.py"
_OF_TRANSACTIONS = ("tests/unit/broker/test_transactions.py",)
_END = "regulus/broker/handlers/end_transaction.py"
_OF_END = ("tests/unit/broker/handlers/test_end_transaction.py",)
_CLIENTS = "regulus/broker/clients.py"
_OF_CLIENTS = ("tests/unit/broker/test_clients.py",)
_HEART_BEAT = "regulus/broker/handlers/heart_beat.py"
_OF_HEART_BEAT = ("tests/unit/broker/handlers/test_heart_beat.py",)
_HELD = "regulus/broker/held_access.py"
_OF_HELD = ("tests/unit/broker/test_held_access.py",)
_OF_TABLE = ("tests/unit/broker/test_access.py",)
_OF_DOOR = ("tests/unit/server/test_door.py",)
_OF_USERS = ("tests/unit/server/test_user_door.py",)
_LOG_STATE = "regulus/broker/handlers/log_state.py"
_OF_LOG_STATE = ("tests/unit/broker/handlers/test_log_state.py",)
_ARCHIVED = "regulus/broker/archived_offset.py"
_OF_ARCHIVED = ("tests/unit/broker/test_archived_offset.py",)
_TOPIC = "regulus/broker/handlers/topic.py"
_GROUPS = "regulus/broker/handlers/subscription_group.py"
_OF_GROUPS = ("tests/unit/broker/handlers/test_subscription_group.py",)
_OF_STEPS = ("tests/unit/broker/test_steps.py",)
_OF_POWER_CUTS = ("tests/crash/test_archive_power_cut.py::test_a_power_cut_at_any_step_takes_nothing_that_counts",)
_OF_SETTINGS = ("tests/unit/broker/test_settings_changes.py",)

MUTANTS = (
    Mutant(name="any producer of the group is asked for others' transactions", path=_TRANSACTIONS,
           old="lambda client: self._may_end(client, topic)", new="lambda client: True", tests=_OF_TRANSACTIONS),
    Mutant(name="whoever knows a half message ends it", path=_END, old="    if denied is not None:\n",
           new="    if denied is not None and False:\n", tests=_OF_END),
    Mutant(name="a half message is ended by who may send to the topic that he names", path=_END,
           old="ending_needs(half.properties.get(names.REAL_TOPIC, \"\"))",
           new="ending_needs(header.real_topic) if header.real_topic else ()",
           tests=_OF_END),
    Mutant(name="handlers are not told who asks", path="regulus/server/door.py",
           old="handle(request, peer.of_user(verdict.user), state, now_ms)", new="handle(request, peer, state, now_ms)",
           tests=_OF_DOOR),
    Mutant(name="a client is nobody's", path=_HEART_BEAT, old="broker.steady_ms, peer.user)",
           new="broker.steady_ms)", tests=_OF_DOOR),
    Mutant(name="one who may not be asked is looked at again and again", path=_CLIENTS,
           old="            clients.move_to_end(channel)\n", new="", tests=_OF_TRANSACTIONS),
    Mutant(name="a client id is of who names it last", path=_CLIENTS,
           old="if self._users.setdefault(client_id, user) != user:", new="if False:", tests=_OF_CLIENTS),
    Mutant(name="a client id is anybody's while its client starts anew", path=_CLIENTS,
           old="if not user or not kept_until_ms:", new="if True:", tests=_OF_CLIENTS),
    Mutant(name="one connection has any number of ids kept", path=_CLIENTS,
           old="self._ids.leave(before, 0)", new="self._ids.leave(before, CLIENT_EXPIRY_MS)", tests=_OF_CLIENTS),
    Mutant(name="a stranger who leaves takes an id along", path=_CLIENTS,
           old="if channels is None or client.channel not in channels:\n            return\n"
               "        del channels[client.channel]",
           new="if channels is None:\n            return\n        channels.pop(client.channel, None)",
           tests=_OF_CLIENTS),
    Mutant(name="a connection that has another user keeps the ids of the one before", path=_CLIENTS,
           old="(before.client_id, before.user) != (client.client_id, client.user)",
           new="before.client_id != client.client_id", tests=_OF_CLIENTS),
    Mutant(name="one user has any number of ids kept", path=_CLIENTS,
           old="        if len(kept) > IDS_KEPT_MAX:", new="        if len(kept) > 1 << 30:", tests=_OF_CLIENTS),
    Mutant(name="an id is kept for good", path=_CLIENTS, old="        self._ids.tick(steady_ms)\n", new="",
           tests=_OF_CLIENTS),
    Mutant(name="one connection produces for any number of groups", path=_CLIENTS,
           old="if group not in producers and len(producers) >= PRODUCER_GROUPS_MAX and not is_own_topic:",
           new="if False:", tests=_OF_HEART_BEAT),
    Mutant(name="others' topics are reasons to produce for more groups", path=_HEART_BEAT,
           old="group in broker.topics and broker.may_end(client, group)", new="group in broker.topics",
           tests=_OF_HEART_BEAT),
    Mutant(name="a connection leaves all its groups at once", path=_CLIENTS,
           old="for _ in range(LEFT_AT_ONCE):", new="for _ in range(1 << 30):", tests=_OF_CLIENTS),
    Mutant(name="replies are taken for any topic", path="regulus/broker/handlers/send_reply_message.py",
           old="if header.topic != reply_topic(broker.config.broker_cluster_name):", new="if False:",
           tests=("tests/unit/broker/handlers/test_send_reply_message.py",)),
    Mutant(name="what is held outlives the right to it", path="regulus/broker/state.py",
           old="decide_ms = None if self.guard is None else self.held_access.tick(self.guard)", new="decide_ms = None",
           tests=_OF_USERS),
    Mutant(name="what is held is answered before it is decided anew", path=_HELD,
           old="if guard.rules is self._rules and held.sequence >= self._decided_from:",
           new="if True:", tests=_OF_HELD),
    Mutant(name="what has left is decided anew", path=_HELD, old="if not held.is_gone and (", new="if (",
           tests=_OF_HELD),
    Mutant(name="a part of what is held is decided anew", path=_HELD,
           old="self._undecided = deque(self._held_requests.all())",
           new="self._undecided = deque(self._held_requests.all()[:DECIDED_MAX])", tests=_OF_HELD),
    Mutant(name="who pops with the least rights acknowledges no retry", path="regulus/broker/access.py",
           old="receipt_handle.normal_topic(decoded.topic, decoded.consumer_group)", new="decoded.topic",
           tests=_OF_TABLE),
    Mutant(name="retries of a group are those of a group with another name", path="regulus/access/needs.py",
           old="group_need(topic.partition(\"+\")[0], ", new="group_need(topic, ", tests=_OF_TABLE),
    Mutant(name="any archive opens the gate", path=_LOG_STATE,
           old="(not trusted or header.archive_identity != trusted)", new="False", tests=_OF_LOG_STATE),
    Mutant(name="where no archive is trusted each is", path=_LOG_STATE,
           old="(not trusted or header.archive_identity != trusted)",
           new="(trusted and header.archive_identity != trusted)", tests=_OF_LOG_STATE),
    Mutant(name="what one archive has another has, too", path=_ARCHIVED,
           old="if identity and identity == self.identity", new="if identity", tests=_OF_ARCHIVED),
    Mutant(name="which archive it was is forgotten", path=_ARCHIVED,
           old="self.physical_offset, self.identity = min(offset, log_end), identity",
           new="self.physical_offset, self.identity = min(offset, log_end), \"\"", tests=_OF_ARCHIVED),
    Mutant(name="an archive has another identity after each run", path="regulus/pipeline/archive.py",
           old="archive_files.identity_of(archive) or archive_files.make_identity(archive, run)",
           new="archive_files.make_identity(archive, run)", tests=("tests/unit/pipeline/test_archive_gate.py",)),
    Mutant(name="an address is a folder", path="regulus/model/local_path.py", old="if not _SCHEME.match(text):",
           new="if True:", tests=("tests/unit/model/test_local_path.py",)),
    Mutant(name="an identity that is damaged is made anew", path="regulus/pipeline/archive_files.py",
           old="    if not re.fullmatch(", new="    if text and not re.fullmatch(",
           tests=("tests/unit/pipeline/test_archive_files.py",)),
    Mutant(name="a power cut takes an identity that was told", path="regulus/pipeline/archive_files.py",
           old="        draft.replace(archive / IDENTITY)\n        _sync_folder(archive)\n",
           new="        draft.replace(archive / IDENTITY)\n",
           tests=_OF_POWER_CUTS),
    Mutant(name="a topic that is deleted leaves what was popped again of it", path=_TOPIC,
           old="(receipt_handle.retry_topic_v1(topic, group), receipt_handle.retry_topic_v2(topic, group))",
           new="(receipt_handle.retry_topic_v1(topic, group),)", tests=("tests/unit/broker/handlers/test_topic.py",)),
    Mutant(name="a long list of topics is answered before it is saved", path=_TOPIC,
           old="        broker.topics.put_all(changed, now_ms)\n    broker.settings.use_all()\n",
           new="        broker.topics.put_all(changed, now_ms)\n", tests=_OF_SETTINGS),
    Mutant(name="a long list of groups is answered before it is saved",
           path="regulus/broker/handlers/subscription_group.py",
           old="        groups.put(config, now_ms)\n    broker.settings.use_all()\n",
           new="        groups.put(config, now_ms)\n", tests=_OF_SETTINGS),
    Mutant(name="a topic made anew is cleaned away", path=_TOPIC,
           old="        if topic not in broker.topics:\n            broker.store.delete_topic(topic)\n",
           new="        broker.store.delete_topic(topic)\n", tests=("tests/unit/broker/handlers/test_topic.py",)),
    Mutant(name="all unused topics go from the disk in one step", path=_TOPIC,
           old="        yield\n        if topic not in broker.topics:\n            broker.store",
           new="        yield from ()\n        if topic not in broker.topics:\n            broker.store",
           tests=_OF_STEPS),
    Mutant(name="a list of groups is made of what was there when it came", path=_GROUPS,
           old="begin(request, peer, _put_listed(request, named_body(request), broker, now_ms),\n"
               "                                     line=SETTINGS_LINE)",
           new="begin(request, peer, _put_listed(request, named_body(request), broker, now_ms))", tests=_OF_GROUPS),
    Mutant(name="retries of a topic that is made anew go with the old one", path=_TOPIC,
           old="                if topic not in broker.topics:\n", new="                if True:\n",
           tests=("tests/unit/broker/test_pops.py",)),
    Mutant(name="offsets are told when nothing changes any more", path="regulus/broker/handlers/stepped.py",
           old="        for _ in range(len(table.changed) // MEMBERS_A_STEP):\n", new="        while table.changed:\n",
           tests=("tests/unit/broker/handlers/test_offsets_admin.py",)),
    Mutant(name="producers are asked faster for those who may not be asked", path=_TRANSACTIONS,
           old="ASKED_MAX * max(1, len(self._askers.get(group, ())))",
           new="ASKED_MAX * max(1, self._clients.producer_count(group))", tests=_OF_TRANSACTIONS),
    Mutant(name="who waits for a lock writes nothing", path="regulus/reliability/settled.py",
           old="AND held.mode = 'RowExclusiveLock'\n", new="AND held.mode = 'RowExclusiveLock' AND held.granted\n",
           tests=("tests/unit/reliability/test_settled.py",)),
)
