"""Watches the functions through which a message passes; the program under test needs no changes.

The methods and functions at which a step begins and ends are wrapped while `watching` is entered, for all engines,
relays, listeners and consumers of this process. A step that is a transaction marks its connection, so that the commit
of this connection is known to belong to the step.
"""

import asyncio
import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import Any

from sqlalchemy import Connection, Engine, event
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.orm import Session, scoped_session

from regulus.client.connecting.connections import Connections
from regulus.client.consuming.listener_calls import ListenerCalls
from regulus.client.consuming.offset_store import BrokerOffsets
from regulus.client.consuming.send_back import SendBack
from regulus.errors import ReliabilityRefused
from regulus.model import message_properties as names
from regulus.model.message import Message
from regulus.reliability import confirms, dead_letters, delivery_log, effect_transaction, judges, outbox_table
from regulus.reliability.applying import Applying
from regulus.reliability.delivery_log import Delivery
from regulus.reliability.inbox import ApplyOnce, ApplyOnceAsync
from regulus.reliability.outbox import Outbox
from regulus.reliability.outbox_table import Position
from regulus.reliability.relay_loop import Relay
from regulus.testing.crash_points.points import CrashPoint, Step, named
from regulus.wire.codes import RequestCode

Ids = frozenset[str]
"""The business ids that pass together; empty when they are not known yet."""
OnPass = Callable[[CrashPoint, Ids], None]
Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]

_UNKNOWN: Ids = frozenset()
_COMMITS = "regulus crash points: what a commit ends"
_EFFECT = "regulus crash points: whose effect begins"
_SENDS = frozenset({RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE})
_LEAVES_WITHIN = 5
"""Turns of the event loop within which a request leaves on an open connection."""

_is_watched = False
_relayed: ContextVar[Ids] = ContextVar("stubs that a relay sends", default=_UNKNOWN)


@contextmanager
def watching(on_pass: OnPass) -> Iterator[None]:
    """Watch this process. `on_pass` is called at each point, in the thread that passes it; what it raises is raised
    there.

    Raises ReliabilityRefused when this process is watched already.
    """
    global _is_watched
    if _is_watched:
        raise ReliabilityRefused("the crash points of this process are watched already: leave that block first")
    _is_watched = True
    try:
        with ExitStack() as undo:
            _Doors(on_pass, undo).watch()
            yield
    finally:
        _is_watched = False


class _Doors:
    def __init__(self, on_pass: OnPass, undo: ExitStack) -> None:
        self._on_pass = on_pass
        self._undo = undo

    def watch(self) -> None:
        self._watch_transactions()
        self._watch_relay()
        self._watch_consumer()
        self._watch_listener()
        self._around(confirms.StubConfirms, "confirm", lambda confirms, message_id, group: {message_id},
                     before="before TELL", after="after TELL")
        self._around(confirms.StubConfirms, "confirm_all", lambda confirms, message_ids, group: message_ids,
                     before="before TELL", after="after TELL")
        self._around(confirms.MessageConfirms, "confirm", lambda confirms, message_id, group: {message_id},
                     before="before TELL", after="after TELL")
        self._around(judges, "confirm", lambda connection, message_id, group: {message_id}, before="before CONFIRM",
                     commits=Step.CONFIRM)
        self._around(dead_letters, "park", lambda connection, message_id, group: {message_id}, before="before PARK",
                     commits=Step.PARK)

    # --- transactions ------------------------------------------------------------------------------------------------

    def _watch_transactions(self) -> None:
        def committing(original: Callable[..., Any]) -> Callable[..., Any]:
            def do_commit(dialect: Any, connection: Any) -> None:
                commits: dict[Step, Ids] = connection.info.pop(_COMMITS, {})
                for step, ids in commits.items():
                    self._pass("before C6" if step is Step.C6 else f"during {step}", ids)
                original(dialect, connection)
                for step, ids in commits.items():
                    self._pass(f"after {step}", ids)
            return do_commit

        self._wrap(DefaultDialect, "do_commit", committing)
        self._listen("rollback", self._rolled_back)
        self._listen("after_cursor_execute", self._executed)

    def _rolled_back(self, connection: Connection) -> None:
        if not connection.invalidated:      # or it was closed, and its marks with it
            connection.info.pop(_COMMITS, None)
            connection.info.pop(_EFFECT, None)

    def _executed(self, connection: Connection, *_: object) -> None:
        ids = connection.info.pop(_EFFECT, None)
        if ids is not None:
            self._pass("during C5", ids)

    # --- the business and its relay ----------------------------------------------------------------------------------

    def _watch_relay(self) -> None:
        self._wrap(Outbox, "add", self._adding)
        for name in ("claim", "claim_again"):
            self._wrap(outbox_table, name, self._claiming)
        self._wrap(outbox_table, "review", self._reviewing)
        self._wrap(Relay, "_send", self._sending)
        self._wrap(Connections, "request", self._requesting)
        self._around(outbox_table, "place", lambda connection, positions: {each.message_id for each in positions},
                     before="before P4", commits=Step.P4)

    def _adding(self, original: Callable[..., str]) -> Callable[..., str]:
        def add(outbox: Outbox, connection: Any, message: Message, *, message_id: str = "") -> str:
            self._pass("before P1", {message_id} if message_id else _UNKNOWN)
            added = original(outbox, connection, message, message_id=message_id)
            if isinstance(connection, Session | scoped_session):
                connection = connection.connection()
            if isinstance(connection, Connection):      # a driver's own connection does not report its commit
                _mark(connection, Step.P1, {added})
            return added
        return add

    def _claiming(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def claim(connection: Connection, policy: Any, wanted: int | Sequence[str]) -> Any:
            if wanted:      # at most this many, or these
                self._pass("before P2", _UNKNOWN if isinstance(wanted, int) else wanted)
            claimed = original(connection, policy, wanted)
            _mark(connection, Step.P2, [each.message_id for each in claimed])
            return claimed
        return claim

    def _reviewing(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def review(connection: Connection, policy: Any, limit: int) -> Any:
            self._pass("before REVIEW", _UNKNOWN)
            reviewed = original(connection, policy, limit)
            _mark(connection, Step.REVIEW, [each.message_id for each in reviewed])
            return reviewed
        return review

    def _sending(self, original: Callable[..., Any]) -> Callable[..., Any]:
        async def send(relay: Relay, batch: Sequence[Any]) -> Any:
            ids = frozenset(each.message_id for each in batch)
            self._pass("before P3", ids)
            before = _relayed.set(ids)
            try:
                outcomes = await original(relay, batch)
            finally:
                _relayed.reset(before)
            stored = {each.message_id for each in outcomes if isinstance(each, Position)}
            if stored:
                self._pass("after P3", stored)
            return outcomes
        return send

    def _requesting(self, original: Callable[..., Any]) -> Callable[..., Any]:
        async def request(connections: Connections, address: str, command: Any, timeout_ms: int) -> Any:
            ids = _relayed.get()
            if not ids or command.code not in _SENDS:
                return await original(connections, address, command, timeout_ms)
            await connections.get(address)
            answer = asyncio.ensure_future(original(connections, address, command, timeout_ms))
            try:
                for _ in range(_LEAVES_WITHIN):
                    await asyncio.sleep(0)
                self._pass("during P3", ids)
                return await answer
            finally:
                answer.cancel()
        return request

    # --- the consumer ------------------------------------------------------------------------------------------------

    def _watch_consumer(self) -> None:
        self._around(ListenerCalls, "pulled", lambda calls, owned, messages, *_: _stubs_of(messages),
                     before="before C1")
        self._around(ListenerCalls, "_finished", lambda calls, owned, messages: _stubs_of(messages), after="after C8")
        self._around(SendBack, "send_back", lambda send_back, message, *_: _stubs_of((message,)),
                     before="before SEND_BACK", after="after SEND_BACK")
        self._around(BrokerOffsets, "_update", lambda *_: None, before="before OFFSET", after="after OFFSET")

    def _watch_listener(self) -> None:
        for listener in (ApplyOnce, ApplyOnceAsync):
            self._around(listener, "__call__", lambda listener, messages, context: _stubs_of(messages),
                         before="after C1", after="before C8")
        self._around(delivery_log, "receive", lambda connection, deliveries: _stubs(deliveries), before="before C2",
                     commits=Step.C2)
        self._around(Applying, "_win", lambda applying, delivery: _stubs((delivery,)),
                     before="before C3", after="after C3")
        for judge in (judges.StubJudge, judges.InboxJudge):
            for name in ("takes", "knows"):
                self._around(judge, name, lambda judge, connection, delivery: _stubs((delivery,)),
                             before="before C4", after="after C4")
        self._wrap(Applying, "_take", self._taking)
        self._wrap(Applying, "_conclude", self._concluding)
        self._wrap(effect_transaction, "undo_shared", self._undoing)
        self._around(delivery_log, "conclude", lambda connection, delivery, *_: _stubs((delivery,)),
                     before="before C7", after="after C7")
        # Without claims there is no token.
        self._around(Applying, "_settle", lambda applying, delivery, claim, *_:
                     _stubs((delivery,)) if claim.token else (), before="before KEY", after="after KEY")

    def _taking(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def take(applying: Applying, connection: Connection, delivery: Delivery, *rest: Any) -> Any:
            taken = original(applying, connection, delivery, *rest)
            if taken:
                ids = _stubs((delivery,))
                self._pass("before C5", ids)
                connection.info[_EFFECT] = ids
            return taken
        return take

    def _undoing(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def undo(connection: Connection) -> None:
            connection.info.pop(_EFFECT, None)      # otherwise its end would count as the effect's first statement
            original(connection)
        return undo

    def _concluding(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def conclude(applying: Applying, connection: Connection, delivery: Delivery, *rest: Any) -> None:
            connection.info.pop(_EFFECT, None)
            self._pass("after C5", _stubs((delivery,)))
            original(applying, connection, delivery, *rest)
            _mark(connection, Step.C6, _stubs((delivery,)))
        return conclude

    # -----------------------------------------------------------------------------------------------------------------

    def _around(self, owner: Any, name: str, ids_of: Callable[..., Iterable[str] | None], *, before: str = "",
                after: str = "", commits: Step | None = None) -> None:
        """Add points before and after a call, and the step that its connection commits.

        `ids_of` gets the arguments; a call without ids is not reported, unless None says that they are not known.
        """
        def around(original: Callable[..., Any]) -> Callable[..., Any]:
            def enter(arguments: Sequence[Any]) -> Ids | None:
                found = ids_of(*arguments)
                ids = _UNKNOWN if found is None else frozenset(found) or None
                if before and ids is not None:
                    self._pass(before, ids)
                return ids

            def leave(arguments: Sequence[Any], ids: Ids | None) -> None:
                if commits is not None and ids:
                    _mark(arguments[0], commits, ids)
                if after and ids is not None:
                    self._pass(after, ids)

            def call(*arguments: Any) -> Any:
                ids = enter(arguments)
                result = original(*arguments)
                leave(arguments, ids)
                return result

            async def call_async(*arguments: Any) -> Any:
                ids = enter(arguments)
                result = await original(*arguments)
                leave(arguments, ids)
                return result

            return call_async if inspect.iscoroutinefunction(original) else call

        self._wrap(owner, name, around)

    def _wrap(self, owner: Any, name: str, wrap: Wrap) -> None:
        original = getattr(owner, name)
        setattr(owner, name, functools.wraps(original)(wrap(original)))
        self._undo.callback(setattr, owner, name, original)

    def _listen(self, name: str, on_event: Callable[..., None]) -> None:
        event.listen(Engine, name, on_event)
        self._undo.callback(event.remove, Engine, name, on_event)

    def _pass(self, name: str, ids: Iterable[str]) -> None:
        self._on_pass(named(name), frozenset(ids))


def _mark(connection: Connection, step: Step, ids: Iterable[str]) -> None:
    """Mark the step that the connection's next commit ends."""
    if ids := frozenset(ids):
        commits = connection.info.setdefault(_COMMITS, {})
        commits[step] = commits.get(step, _UNKNOWN) | ids


def _stubs_of(messages: Iterable[Message]) -> Ids:
    """The ids of those messages that have one."""
    return frozenset(message.properties.get(names.BUSINESS_ID, "") for message in messages) - {""}


def _stubs(deliveries: Iterable[Delivery]) -> Ids:
    return frozenset(delivery.message_id for delivery in deliveries) - {""}
