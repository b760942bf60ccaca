"""The users of the brokers behind `regulus proxy`, which asks a master for them every few seconds.

It sends the requests by which operators list users and policies, to brokers of Regulus and RocketMQ alike. It signs
them as a Super user, because brokers show passwords to no other. `mqadmin` gives all brokers of a cluster the same
users, so the first broker by name that answers is believed. Its last answer holds while none answers; before the first
answer every call is refused.

A user that cannot be read is refused, and a user whose policies cannot be read may do nothing. To keep the last
readable answer instead would keep deleted users alive. Answers contain secrets: only names and unreadable words are
logged.
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
"""Pause between two requests for the users. A change of users takes effect at most this much later, plus the time of
the answer."""
FIRST_LOOK_S = 0.5
"""Pause between two requests while no users are known, and every call is refused."""
_TIMEOUT_MS = 3_000
"""How long one broker may take to answer before the next one is asked."""
_FAULTS_TOLD_MAX = 10
"""Unreadable users or policies that one log line names."""
_NO_CLUSTER = ""
"""The name of no cluster: calls of clients need no permission for a cluster."""


class ClusterUsers:
    """Keeps the users of the brokers up to date. `authorizes`: whether policies limit what users may do."""

    def __init__(self, brokers: Brokers, *, authorizes: bool) -> None:
        self._brokers = brokers
        self._switches = Switches(cluster=_NO_CLUSTER, authorizes=authorizes)
        self._masters: list[str] = []       # in the last answer of a name server
        self._rules: UserRules | None = None
        self._texts: tuple[bytes, bytes] | None = None      # from which the rules were made
        self._why = "no broker was asked yet"
        self._told = ""

    def rules(self) -> UserRules:
        """The rules of the users that are known. Raises CallRefused until the first broker has sent its users."""
        if self._rules is None:
            raise CallRefused(Code.PROXY_TIMEOUT, f"the users are not known here yet: {self._why}")
        return self._rules

    async def keep(self) -> None:
        """Ask for the users again and again, until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_S if self._rules is not None else FIRST_LOOK_S)

    async def look(self) -> None:
        """Ask for the users once. A failure is logged as a warning only when it is new, and so is its end."""
        try:
            await self._ask_one_of(await self._find_masters())
        except (CallRefused, HeaderError) as error:
            self._why = str(error)
            _log.log(logging.DEBUG if self._why == self._told else logging.WARNING,
                     "the users of the brokers cannot be fetched: %s; %s", error,
                     "the last known ones hold" if self._rules is not None else "every call is refused")
            self._told = self._why
            return
        if self._told:
            _log.info("the users of the brokers are known again")
        self._told = ""

    async def _find_masters(self) -> list[str]:
        """Names of the masters; the last known ones while no name server answers.

        Calls continue with known routes then, so the users must be kept up to date as well. Raises CallRefused and
        HeaderError if no masters are known."""
        try:
            self._masters = await masters_of(self._brokers, _TIMEOUT_MS)
        except (CallRefused, HeaderError):
            if not self._masters:
                raise
        return self._masters

    async def _ask_one_of(self, names: list[str]) -> None:
        """Ask one broker after the other until one answers. Raises CallRefused or HeaderError, the first failure, if
        none does."""
        faults: list[CallRefused | HeaderError] = []
        for name in names:
            try:
                await self._ask(name)
                return
            except (CallRefused, HeaderError) as error:
                faults.append(error)
        raise faults[0] if faults else CallRefused(Code.PROXY_TIMEOUT, "no master of any broker is known here")

    async def _ask(self, name: str) -> None:
        users = await self._listed(name, RequestCode.AUTH_LIST_USER)
        policies = await self._listed(name, RequestCode.AUTH_LIST_ACL) if self._switches.authorizes else b""
        if (users, policies) == self._texts:
            return
        try:
            # In a thread: 5,000 users with their policies take 0.4 s, in which all calls would wait.
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
    """The users by name, and one text for each that cannot be read. Raises CallRefused if the broker shows no
    passwords, and HeaderError for an unreadable list."""
    table: dict[str, User] = {}
    faults: list[str] = []
    infos = list(_infos(UserInfo, users, faults))
    if faults and not infos:        # the broker has another format of users
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
    """The entries of a JSON list that can be read; `faults` gets a text for each other. An empty text is an empty list.
    Raises HeaderError if it is not a list; its message quotes nothing, as the text has secrets."""
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
            faults.append(f"{kind.__name__} {number} of the list cannot be read")
            continue
        yield info
