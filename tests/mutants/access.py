"""What lets somebody in who may not: docs/access.md."""

from tests.mutants import Mutant

_RULES = "regulus/access/plain_rules.py"
_TABLE = "regulus/broker/access.py"
_OF_RULES = ("tests/unit/access/test_plain_rules.py",)
_OF_TABLE = ("tests/unit/broker/test_access.py",)
_OF_DOOR = ("tests/unit/server/test_door.py",)
_SENDS = "regulus/access/signed_sends.py"
_OF_SENDS = ("tests/unit/access/test_signed_sends.py",)
_OF_FILES = ("tests/unit/server/test_access_files.py",)

MUTANTS = (
    Mutant(name="any signature is right", path=_RULES, old="if not is_signed(facts.ext",
           new="if False and not is_signed(facts.ext", tests=_OF_RULES),
    Mutant(name="the body is not signed", path="regulus/access/signature_check.py", old="    made.update(body)\n",
           new="", tests=_OF_RULES),
    Mutant(name="a DENY beside a PUB grants", path=_RULES, old="if not granted & Grant.DENY and granted & wanted:",
           new="if granted & wanted:", tests=_OF_RULES),
    Mutant(name="the first need decides for all", path=_RULES,
           old="        if isinstance(verdict, Denied):\n            break\n", new="        break\n", tests=_OF_RULES),
    Mutant(name="a default grants all topics", path=_RULES, old="if need.name != ANY_NAME and wanted and",
           new="if wanted and", tests=_OF_RULES),
    Mutant(name="the needs of strangers are read", path=_RULES,
           old="        if not is_signed(facts.ext", new="        facts.needs()\n        if not is_signed(facts.ext",
           tests=_OF_RULES),
    Mutant(name="an address matches by its first numbers", path="regulus/access/white_addresses.py",
           old="            len(ranges) == len(numbers) and all(", new="            all(",
           tests=("tests/unit/access/test_white_addresses.py",)),
    Mutant(name="a batch needs nothing", path=_TABLE, old="Code.SEND_BATCH_MESSAGE, ", new="",
           tests=_OF_TABLE),
    Mutant(name="a heartbeat needs no group", path=_TABLE,
           old="        found[group_need(consumer.group_name, SUB)] = None\n", new="", tests=_OF_TABLE),
    Mutant(name="a message sent back may be anybody's", path="regulus/broker/handlers/consumer_send_msg_back.py",
           old="if broker.is_guarded and header.origin_topic", new="if False and header.origin_topic",
           tests=("tests/unit/broker/handlers/test_consumer_send_msg_back.py",)),
    Mutant(name="a stranger registers a broker", path="regulus/nameserver/access.py",
           old="Code.GET_ROUTEINFO_BY_TOPIC, Code", new="Code.REGISTER_BROKER, Code.GET_ROUTEINFO_BY_TOPIC, Code",
           tests=_OF_DOOR),
    Mutant(name="the broker beside a name server need not sign", path="regulus/server/name_server.py",
           old="        if denied is not None:\n            return request.response(denied.code, denied.remark)\n",
           new="", tests=_OF_DOOR),
    Mutant(name="half of a change of accounts holds", path="regulus/server/access_files.py",
           old="_log.error(\"accounts stay as they were: %s\", error)",
           new="self.rules = PlainRules(WhiteAddresses(), {})", tests=_OF_FILES),
    Mutant(name="a peer names the file that is written", path="regulus/server/access_files.py",
           old="if target != self._main and target not in self._documents:", new="if False:", tests=_OF_DOOR),
    Mutant(name="others read the accounts that we write", path="regulus/server/access_files.py",
           old="_SECRET_MODE = 0o600", new="_SECRET_MODE = 0o644", tests=_OF_FILES),
    Mutant(name="whoever reaches the port copies the log", path="regulus/server/ha_server.py",
           old="if self._allowed and not self._allowed.matches(link.host):", new="if False:",
           tests=("tests/unit/server/test_ha_server.py",)),
    Mutant(name="settings show the brokers' secret", path="regulus/access/credentials.py",
           old="_SECRETS = (\"innerClientAuthenticationCredentials\",)", new="_SECRETS = ()", tests=_OF_DOOR),
    Mutant(name="a send as one that was let in needs no signature", path=_SENDS,
           old="return self._is_signed(request, sender)", new="return True", tests=_OF_SENDS),
    Mutant(name="a send as one that was let in may go to any topic", path=_SENDS,
           old="                or self._value(_TOPIC) not in sender.topics:", new="                or False:",
           tests=_OF_SENDS),
    Mutant(name="what old rules let in passes on", path=_SENDS, old="        if rules is not self._rules:\n",
           new="        if False:\n", tests=_OF_SENDS),
    Mutant(name="the door reads another topic than the handler", path=_SENDS,
           old="if field == _FIELDS or self._seen >> field & 1:", new="if field == _FIELDS:", tests=_OF_SENDS),
    Mutant(name="a field that is not signed is let through", path=_SENDS,
           old="        if field == _FIELDS or",
           new="        if field == _FIELDS:\n            return True\n        if", tests=_OF_SENDS),
    Mutant(name="another account sends by what the first may", path=_SENDS,
           old="if sender is None or sender.access_key != user or sender.secret_key != secret:",
           new="if sender is None:", tests=_OF_SENDS),
)
