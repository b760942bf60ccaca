"""What lets a RocketMQ 5 client do what it may not, or lose what it was given: docs/grpc.md."""

from tests.mutants import Mutant

_SERVICE = ("tests/unit/proxy/test_service.py",)
_POPPING = "regulus/proxy/popping.py"
_RENEWING = "regulus/proxy/renewing.py"
_OF_RENEWING = ("tests/unit/proxy/test_renewing.py",)
_ACCESS = "regulus/proxy/access.py"
_OF_ACCESS = ("tests/unit/proxy/test_access.py",)
_RECEIVE = "regulus/proxy/receive_call.py"
_CLIENTS = "regulus/proxy/clients.py"
_OF_LANES = ("tests/unit/proxy/test_lanes.py",)
_SENDING = "regulus/proxy/sending.py"
_OF_SENDING = ("tests/unit/proxy/test_sending.py",)

MUTANTS = (
    Mutant(name="a gRPC call may be signed by nobody", path=_ACCESS,
           old="return user if given.isascii() and hmac.compare_digest(expected, given) else None",
           new="return user", tests=_OF_ACCESS),
    Mutant(name="a gRPC receive needs no group", path=_ACCESS,
           old="return (group(request.group), topic(SUB, request.message_queue.topic))",
           new="return (topic(SUB, request.message_queue.topic),)", tests=_OF_ACCESS),
    Mutant(name="a forged handle makes a dead letter of any message", path=_POPPING,
           old="    await _check_place(brokers, group, topic, handle)\n", new="", tests=_SERVICE),
    Mutant(name="a dead letter stays in its queue", path=_POPPING,
           old="    checked(answer)\n    await ack(brokers, group, topic, handle)\n", new="    checked(answer)\n",
           tests=_SERVICE),
    Mutant(name="an expired handle still counts", path="regulus/proxy/receipt_handle.py",
           old="if handle.visible_at_ms <= now_ms:", new="if False:",
           tests=("tests/unit/proxy/test_receipt_handle.py",)),
    Mutant(name="a decision does not wait for a renewal", path=_RENEWING,
           old="        if under_way is not None:\n", new="        if False and under_way is not None:\n",
           tests=_OF_RENEWING),
    Mutant(name="a failed acknowledgement ends the renewal", path=_RENEWING,
           old="                self._undecided(renewed)\n", new="                pass\n", tests=_OF_RENEWING),
    Mutant(name="an acknowledgement that is cut short ends the renewal", path=_RENEWING,
           old="        is_decided = False\n", new="        is_decided = True\n", tests=_OF_RENEWING),
    Mutant(name="what a client that is gone had in hand is renewed for hours", path=_RENEWING,
           old="        if self._is_known(renewed.client_id):\n", new="        if True:\n", tests=_OF_RENEWING),
    Mutant(name="what is decided in vain is renewed twice at once", path="regulus/proxy/renewals.py",
           old="        if not renewed.is_scheduled:  ", new="        if True:  ", tests=_OF_RENEWING),
    Mutant(name="a change at a broker takes any time", path=_RENEWING, old="asyncio.timeout(CHANGE_S_MAX)",
           new="asyncio.timeout(None)", tests=_OF_RENEWING),
    Mutant(name="a client that leaves one group gives up the messages of all", path=_RENEWING,
           old="self._renewals.take_client(client_id, group)", new="self._renewals.take_client(client_id)",
           tests=_OF_RENEWING),
    Mutant(name="all brokers share a lane", path=_RENEWING,
           old="self._lanes.put(renewed.handle.broker, partial(self._renew, renewed))",
           new='self._lanes.put("", partial(self._renew, renewed))', tests=_OF_RENEWING),
    Mutant(name="a lane does any number of jobs at once", path="regulus/proxy/lanes.py",
           old="        if self._working.get(broker, 0) < AT_ONCE_MAX:\n", new="        if True:\n", tests=_OF_LANES),
    Mutant(name="any number of jobs waits for brokers", path="regulus/proxy/lanes.py",
           old="        if self._count >= WAITING_MAX:\n", new="        if False:\n", tests=_OF_LANES),
    Mutant(name="what is looked through for a client that goes away stays hidden", path=_RECEIVE,
           old="            if is_cut_short:\n", new="            if False:\n",
           tests=("tests/unit/proxy/test_receive_call.py",)),
    Mutant(name="a client id belongs to whoever writes it", path=_CLIENTS,
           old="        if client is not None and client.user != caller.user:\n", new="        if False:\n",
           tests=("tests/unit/proxy/test_telemetry.py",)),
    Mutant(name="a client id changes hands between the check and the deed", path=_CLIENTS,
           old="        self.check_user(caller)\n", new="", tests=("tests/unit/proxy/test_clients.py",)),
    Mutant(name="what was renewed for a client that is gone stays invisible", path=_RENEWING,
           old="if not is_over and not self._renewals.renewed(renewed, handle):",
           new="if not is_over and not self._renewals.renewed(renewed, handle) and False:", tests=_OF_RENEWING),
    Mutant(name="a poll outlives its client", path=_RECEIVE,
           old='            self._tasks.spawn(self._release_late(task, pop), f"release for {pop.consumer_group}")\n',
           new="", tests=_SERVICE),
    Mutant(name="a control character ends a property early", path=_SENDING,
           old='_check_plain(value, Code.ILLEGAL_MESSAGE_PROPERTY_KEY, f"the property {name}")', new="pass",
           tests=_OF_SENDING),
    Mutant(name="a user writes a system property", path=_SENDING, old="        if name in RESERVED:\n",
           new="        if False:\n", tests=_OF_SENDING),
    Mutant(name="a batch may have a half message", path=_SENDING,
           old="each.kind is MessageType.NORMAL and not each.sys_flag", new="True", tests=_OF_SENDING),
    Mutant(name="the type of a topic is not looked at", path="regulus/proxy/topic_types.py",
           old="if kind in taken or", new="if True or", tests=_SERVICE),
    Mutant(name="a transaction id has any form", path="regulus/proxy/transaction_id.py",
           old="    if match is None:\n", new='    if match is None and "@" not in text:\n', tests=_SERVICE),
    Mutant(name="gRPC's own port is for everybody", path="regulus/proxy/service.py", old="        if peer is None:\n",
           new="        if False:\n", tests=_SERVICE),
    Mutant(name="what gRPC says first is lost", path="regulus/proxy/front.py",
           old="            inside.other = self.transport  ", new="            inside.other = None  ",
           tests=("tests/unit/proxy/test_front.py",)),
    Mutant(name="a client that reads nothing fills the memory", path=_CLIENTS,
           old="asyncio.Queue(COMMANDS_MAX)", new="asyncio.Queue()", tests=("tests/unit/proxy/test_clients.py",)),
)
