"""The users of the brokers behind a front that stands alone: it asks a master for them, now and then.

It asks as an operator does who lists users and policies, of our brokers and RocketMQ's, and signs as a Super user, to
whom alone passwords are shown. All brokers of a cluster are told the same users by `mqadmin`; the first one by name
that answers is believed. What it said last holds while none answers. Before anybody said anything, nobody is let in.

Who cannot be read is not let in, and whose policies cannot be read may nothing: of others what was told last would hold
else, though they are deleted. What brokers answer has secrets: only names, and words that cannot be read, are logged.
"""

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import TypeVar

from regulus.access.user_rules import Switches, User, UserRules
from regulus.access.user_words import parse_subject, policies_of, user_of
from regulus.errors import CallRefused, ConfigError, HeaderError
from regulus.proxy.brokers import Brokers, masters_of
from regulus.wire import fastjson, json_fields
from regulus.wire.bodies import AclInfo, UserInfo
from regulus.wire.codes import RequestCode, ResponseCode
from regulus.wire.grpc.codes import Code
from regulus.wire.remoting_command import RemotingCommand

_log = logging.getLogger(__name__)

T = TypeVar("T")

LOOK_S = 5.0
"""Between two questions: a change holds here so much later, and the time of an answer."""
FIRST_LOOK_S = 0.5
"""The same as long as no users are known."""
_TIMEOUT_MS = 3_000
_FAULTS_TOLD_MAX = 10
_NO_CLUSTER = ""
"""No call of a client needs anything of a cluster."""


class ClusterUsers:
    def __init__(self, brokers: Brokers, *, authorizes: bool) -> None:
        self._brokers = brokers
        self._switches = Switches(cluster=_NO_CLUSTER, authorizes=authorizes)
        self._masters: list[str] = []       # that a name server knew last
        self._rules: UserRules | None = None
        self._texts: tuple[bytes, bytes] | None = None      # what the rules were made of
        self._why = "no broker was asked yet"
        self._told = ""

    def rules(self) -> UserRules:
        """Raises CallRefused as long as no broker has told its users."""
        if self._rules is None:
            raise CallRefused(Code.PROXY_TIMEOUT, f"the users are not known here yet: {self._why}")
        return self._rules

    async def keep(self) -> None:
        """Until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_S if self._rules is not None else FIRST_LOOK_S)

    async def look(self) -> None:
        """Ask for what has changed; a fault is told once, and so is its end."""
        try:
            await self._ask_one_of(await self._find_masters())
        except (CallRefused, HeaderError) as error:
            self._why = str(error)
            _log.log(logging.DEBUG if self._why == self._told else logging.WARNING,
                     "the users of the brokers are not asked for: %s; %s", error,
                     "those that were told last hold" if self._rules is not None else "nobody is let in")
            self._told = self._why
            return
        if self._told:
            _log.info("the users of the brokers are known again")
        self._told = ""

    async def _find_masters(self) -> list[str]:
        """Also while no name server answers: calls go on by routes that are known, so users are asked for, too. Raises
        CallRefused, HeaderError."""
        try:
            self._masters = await masters_of(self._brokers, _TIMEOUT_MS)
        except (CallRefused, HeaderError):
            if not self._masters:
                raise
        return self._masters

    async def _ask_one_of(self, names: list[str]) -> None:
        """Raises CallRefused, HeaderError: what the first of them said."""
        faults: list[CallRefused | HeaderError] = []
        for name in names:
            try:
                await self._ask(name)
                return
            except (CallRefused, HeaderError) as error:
                faults.append(error)
        raise faults[0] if faults else CallRefused(Code.PROXY_TIMEOUT, "no broker has a master here")

    async def _ask(self, name: str) -> None:
        users = await self._listed(name, RequestCode.AUTH_LIST_USER)
        policies = await self._listed(name, RequestCode.AUTH_LIST_ACL) if self._switches.authorizes else b""
        if (users, policies) == self._texts:
            return
        try:
            # 5,000 users with their policies take 0.4 s, in which all calls would wait.
            table, faults = await asyncio.to_thread(_users, users, policies)
        except HeaderError as error:
            raise HeaderError(f"broker {name}: {error}") from None
        self._rules = UserRules(self._switches, table)
        self._texts = (users, policies)
        if faults:
            _log.warning("%d users or policies of broker %s cannot be read, and grant nothing: %s", len(faults), name,
                         "; ".join(faults[:_FAULTS_TOLD_MAX]))

    async def _listed(self, name: str, code: RequestCode) -> bytes:
        answer = await self._brokers.ask(name, RemotingCommand.request(code), _TIMEOUT_MS)
        if answer.code != ResponseCode.SUCCESS:
            raise CallRefused(Code.INTERNAL_SERVER_ERROR, f"broker {name} answered {answer.code}: {answer.remark}")
        return bytes(answer.body)


def _users(users: bytes, policies: bytes) -> tuple[dict[str, User], list[str]]:
    """By name, and what cannot be read. Raises CallRefused, HeaderError."""
    table: dict[str, User] = {}
    faults: list[str] = []
    infos = list(_infos(UserInfo, users, faults))
    if faults and not infos:        # such a broker does not tell users as we know them
        raise HeaderError("its list of UserInfo cannot be read")
    for info in infos:
        if not info.password:
            raise CallRefused(Code.INTERNAL_SERVER_ERROR, "accessKey is shown no passwords: set that of a Super user")
        try:
            user = user_of(info)
        except ConfigError as error:
            faults.append(f"user {info.username}: {error}")
            continue
        table[user.name] = user
    for acl in _infos(AclInfo, policies, faults):
        try:
            owner = table.get(parse_subject(acl.subject or ""))
            if owner is not None:
                table[owner.name] = replace(owner, policies=policies_of(acl.policies or ()))
        except ConfigError as error:
            faults.append(f"policies of {acl.subject}: {error}")
    return table, faults


def _infos(kind: type[T], text: bytes, faults: list[str]) -> Iterator[T]:
    """Without those that cannot be read, which `faults` gets. An empty text is an empty list. Raises HeaderError, which
    shows nothing of it."""
    try:
        values = fastjson.loads(text) if text else []
    except HeaderError:
        values = None
    if not isinstance(values, list):
        raise HeaderError(f"its list of {kind.__name__} cannot be read")
    for number, value in enumerate(values, 1):
        try:
            info = json_fields.from_value(kind, value)
        except HeaderError:
            faults.append(f"{kind.__name__} {number} of the list is none")
            continue
        yield info
