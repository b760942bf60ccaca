"""Faults of what the log tells: too early, too often, what is none, or in a form that a peer may forge."""

from tests.mutants import Mutant

_RETENTION = "regulus/server/retention_loop.py"
_REQUESTS = "regulus/server/request_server.py"
_REFUSALS = "regulus/server/refusals.py"
_ROUTES = "regulus/nameserver/route_table.py"
_CLIENTS = "regulus/broker/groups/clients.py"
_CLIENTS_TESTS = ("tests/unit/broker/groups/test_clients.py",)

_REQUEST_TESTS = ("tests/unit/server/test_request_server.py",)
_REFUSAL_TESTS = ("tests/unit/server/test_refusals.py",)
_ROUTE_TESTS = ("tests/unit/nameserver/test_route_table.py",)

MUTANTS = [
    Mutant(name="a topic is told before it is saved", path="regulus/server/documents.py",
           old="                self.happenings.put(", new="            self.happenings.put(",
           tests=("tests/unit/server/test_documents.py",)),
    Mutant(name="a start tells all that it finds", path="regulus/wire/encoded_table.py",
           old="        elif self._blocks[number][place]:", new="        else:",
           tests=("tests/unit/wire/test_encoded_table.py",)),
    Mutant(name="each heartbeat of a producer is told", path="regulus/broker/groups/clients.py",
           old="        if client.channel not in clients:", new="        if True:",
           tests=("tests/unit/broker/groups/test_clients.py",)),
    Mutant(name="a client that connects anew is told as two", path="regulus/broker/groups/clients.py",
           old="if min(client.heard_ms, other.heard_ms) <= both_since_ms:", new="if False:",
           tests=("tests/unit/broker/groups/test_clients.py",)),
    Mutant(name="two clients with one id are told at each heartbeat", path="regulus/broker/groups/clients.py",
           old="        self._told_twice.add(client.client_id)\n", new="",
           tests=("tests/unit/broker/groups/test_clients.py",)),
    Mutant(name="each registration of a broker is told", path=_ROUTES,
           old="        if is_new:\n            self.happenings", new="        if True:\n            self.happenings",
           tests=_ROUTE_TESTS),
    Mutant(name="the topics of a broker that comes are told one by one", path=_ROUTES,
           old="is_noted=not first)", new="is_noted=True)", tests=_ROUTE_TESTS),
    Mutant(name="what happens is told at every tick", path="regulus/server/event_log.py",
           old="            self._next_ms = steady_ms + EVENT_INTERVAL_MS", new="            pass",
           tests=("tests/unit/server/test_event_log.py",)),
    Mutant(name="a refusal is not counted", path=_REQUESTS,
           old="            if code:\n", new="            if False:\n", tests=_REQUEST_TESTS),
    Mutant(name="a refusal that waits for saving is not counted", path=_REQUESTS,
           old="                _note_refusal(reply, request, peer, refusals)", new="                pass",
           tests=_REQUEST_TESTS),
    Mutant(name="an empty queue counts as refused", path=_REFUSALS,
           old="        if answer.code in NO_REFUSALS:", new="        if False:", tests=_REFUSAL_TESTS),
    Mutant(name="refusals are told at every tick", path=_REFUSALS,
           old="            self._next_ms = steady_ms + REFUSALS_INTERVAL_MS", new="            pass",
           tests=_REFUSAL_TESTS),
    Mutant(name="a name of a peer may end a line of the log", path="regulus/server/logging_setup.py",
           old=".translate(_ESCAPED)", new="", tests=("tests/unit/server/test_logging_setup.py",)),
    Mutant(name="a pull that is refused is told each time", path="regulus/client/consuming/queue_puller.py",
           old="self._refusal_told_ms is None or", new="True or",
           tests=("tests/unit/client/consuming/test_queue_puller.py",)),
    Mutant(name="a queue whose pulls are refused is not blocked", path="regulus/client/consuming/queue_puller.py",
           old="self._owned.is_refused = True", new="pass",
           tests=("tests/unit/client/consuming/test_queue_puller.py",)),
    Mutant(name="a disk that is full again within a minute is not seen", path=_RETENTION,
           old="min(rest, pause) if rest > 0 else pause", new="rest if rest > 0 else pause",
           tests=("tests/unit/server/test_retention_loop.py",)),
    Mutant(name="room is found by sends alone", path="regulus/server/store_care.py",
           old='"" if self._store.is_writable else self._store.fault', new="self._store.fault",
           tests=("tests/unit/server/test_store_care.py",)),
    Mutant(name="a fault that lasts is told in each round", path="regulus/server/store_care.py",
           old="kind != self._kind or steady_ms", new="True or steady_ms",
           tests=("tests/unit/server/test_store_care.py",)),
    Mutant(name="a fault is another where it is met at another file", path="regulus/server/store_care.py",
           old='_PLACE.sub("", fault)', new="fault", tests=("tests/unit/server/test_store_care.py",)),
    Mutant(name="a broker that cannot be asked is dashes and a success", path="regulus/cli/cluster.py",
           old="        raise silent\n", new="        pass\n", tests=("tests/unit/cli/test_cluster.py",)),
    Mutant(name="the demo counts what is under way as settled", path="regulus/cli/demo/verdict.py",
           old=" == found.applied + found.parked.count\n", new="\n", tests=("tests/unit/cli/demo/test_verdict.py",)),
    Mutant(name="the demo forgives what is lost", path="regulus/cli/demo/verdict.py",
           old="found.is_kept and ", new="", tests=("tests/unit/cli/demo/test_verdict.py",)),
    Mutant(name="a listener that raises is told of its return, too",
           path="regulus/client/consuming/listener_workers.py",
           old='        work.odd_answer = ""    # the call failed, so there is no answer to describe\n', new="",
           tests=("tests/unit/client/consuming/test_listener_calls.py",)),
    Mutant(name="members that subscribe differently are told at each heartbeat", path=_CLIENTS,
           old="        if self._wishes.get(channel) == wishes:\n            return False\n", new="",
           tests=_CLIENTS_TESTS),
    Mutant(name="a member that left is still compared with", path=_CLIENTS,
           old="        self._wishes.pop(channel, None)\n", new="", tests=_CLIENTS_TESTS),
    Mutant(name="members that subscribe differently are not told", path=_CLIENTS,
           old="        if entry.becomes_unlike(client.channel, subscriptions):\n", new="        if False:\n",
           tests=_CLIENTS_TESTS),
    Mutant(name="members that pop are unlike those that pull", path=_CLIENTS,
           old="if not is_retry_topic(each.topic)))", new="if each.topic))", tests=_CLIENTS_TESTS),
]
