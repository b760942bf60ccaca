"""Who may call what: the signature in a call's headers, and what the call needs.

    MQv2-HMAC-SHA1 Credential=<access key>[/<region>/<service>], SignedHeaders=x-mq-date-time, Signature=<hex>

The signature is HMAC-SHA1 of the header `x-mq-date-time` as it stands, and of nothing else; its time is no clock, as
clients write local times. The accounts and their permissions are those of the brokers.

Source: AuthenticationFactory, DefaultAuthenticationContextBuilder, DefaultAuthorizationContextBuilder.
"""

import hmac
from collections.abc import Callable
from typing import Any, TypeVar

from google.protobuf.message import Message as ProtobufMessage

from regulus.access.decision import Action, Denied, Need, Rules
from regulus.access.needs import PUB, SUB, ending_needs, group_need, topic_need
from regulus.errors import CallRefused
from regulus.model.happenings import Happenings
from regulus.proxy.caller import Caller
from regulus.proxy.names import full_name
from regulus.wire.grpc import messages
from regulus.wire.grpc.codes import ClientType, Code

DENIED = "denied by access control"
AUTHORIZATION_SIZE_MAX = 1_024
_EITHER = (Action.PUB, Action.SUB)

ClientRequest = (
    messages.AckMessageRequest | messages.ChangeInvisibleDurationRequest | messages.EndTransactionRequest
    | messages.ForwardMessageToDeadLetterQueueRequest | messages.HeartbeatRequest
    | messages.NotifyClientTerminationRequest | messages.QueryAssignmentRequest | messages.QueryRouteRequest
    | messages.RecallMessageRequest | messages.ReceiveMessageRequest | messages.SendMessageRequest
    | messages.SyncLiteSubscriptionRequest | messages.TelemetryCommand)
"""What a client sends; each has a row in `_NEEDS`."""


class CallAccess:
    """`rules` tells those that hold now; `happenings` has who was denied, and why."""

    def __init__(self, rules: Callable[[], Rules]) -> None:
        self._rules = rules
        self._seen: Rules | None = None
        self.happenings = Happenings()

    def has_changed(self) -> bool:
        """Whether other rules hold than at the last call. As long as none are known, which whoever asks for them tells,
        none have changed: nobody was let in."""
        try:
            rules = self._rules()
        except CallRefused:
            return False
        before, self._seen = self._seen, rules
        return rules is not before

    @property
    def rules(self) -> Rules:
        """Those that hold now: another object after each change."""
        return self._rules()

    def check(self, method: str, request: ClientRequest, caller: Caller) -> str:
        """The user who signed; empty for nobody, who may call from a white address. Raises CallRefused UNAUTHORIZED."""
        return self._permitted(method, caller, needs(request, caller.namespace))

    def check_signature(self, method: str, caller: Caller) -> None:
        """Before the request is read: whether it is of somebody who may call anything. Raises CallRefused
        UNAUTHORIZED."""
        self._permitted(method, caller, ())

    def _permitted(self, method: str, caller: Caller, needed: tuple[Need, ...]) -> str:
        rules = self._rules()
        user = signer(caller, rules)
        verdict = rules.permit(user or "", caller.host, needed)
        if not isinstance(verdict, Denied):
            return user or ""
        why = "its signature is missing or wrong" if user is None else verdict.rule
        self.happenings.note(DENIED, f"{method} of {caller.peer}: {why}")
        raise CallRefused(Code.UNAUTHORIZED, "the signature is missing or wrong: give the client the access key and "
                                             "the secret key of an account" if user is None else verdict.remark)

    def may_end(self, user: str, host: str, topic: str) -> bool:
        """Whether the user may end transactions of the topic by the rules of now: they may have changed since the last
        call."""
        return not isinstance(self._rules().permit(user, host, ending_needs(topic)), Denied)


def signer(caller: Caller, rules: Rules) -> str | None:
    """The user who signed the call; None when nobody did whom the rules know."""
    if len(caller.authorization) > AUTHORIZATION_SIZE_MAX:
        return None
    _, blank, rest = caller.authorization.partition(" ")
    fields = dict(part.strip().partition("=")[::2] for part in rest.split(",")) if blank else {}
    user = fields.get("Credential", "").partition("/")[0]
    secret = rules.secret_of(user) if user and caller.date_time else None
    if secret is None:
        return None
    expected = hmac.digest(secret.encode(), caller.date_time.encode(), "sha1").hex()
    given = fields.get("Signature", "").lower()
    return user if given.isascii() and hmac.compare_digest(expected, given) else None


def needs(request: ClientRequest, namespace: str = "") -> tuple[Need, ...]:
    """What a call needs; nothing for what only concerns its client. Raises KeyError for a request without a row."""
    return _NEEDS[type(request)](request, namespace)


def _topic(actions: tuple[Action, ...], resource: messages.Resource, namespace: str) -> Need:
    return topic_need(full_name(resource, namespace), actions)


def _group(resource: messages.Resource, namespace: str) -> Need:
    return group_need(full_name(resource, namespace), SUB)


def _needs_of_send(request: messages.SendMessageRequest, namespace: str) -> tuple[Need, ...]:
    return tuple({_topic(PUB, message.topic, namespace): None for message in request.messages})


def _needs_of_recall(request: messages.RecallMessageRequest, namespace: str) -> tuple[Need, ...]:
    return (_topic(PUB, request.topic, namespace),)


def _needs_of_ending(request: messages.EndTransactionRequest, namespace: str) -> tuple[Need, ...]:
    return ending_needs(full_name(request.topic, namespace))


def _needs_of_route(request: messages.QueryRouteRequest, namespace: str) -> tuple[Need, ...]:
    return (_topic(_EITHER, request.topic, namespace),)


def _needs_of_consumer(request: (messages.AckMessageRequest | messages.ChangeInvisibleDurationRequest
                                 | messages.ForwardMessageToDeadLetterQueueRequest | messages.QueryAssignmentRequest),
                       namespace: str) -> tuple[Need, ...]:
    return (_group(request.group, namespace), _topic(SUB, request.topic, namespace))


def _needs_of_receive(request: messages.ReceiveMessageRequest, namespace: str) -> tuple[Need, ...]:
    return (_group(request.group, namespace), _topic(SUB, request.message_queue.topic, namespace))


def _needs_of_heartbeat(request: messages.HeartbeatRequest, namespace: str) -> tuple[Need, ...]:
    is_producer = request.client_type == ClientType.PRODUCER and not request.HasField("group")
    return () if is_producer else (_group(request.group, namespace),)


def _needs_of_termination(request: messages.NotifyClientTerminationRequest, namespace: str) -> tuple[Need, ...]:
    return (_group(request.group, namespace),) if request.HasField("group") else ()


def _needs_of_lite(request: messages.SyncLiteSubscriptionRequest, namespace: str) -> tuple[Need, ...]:
    """Nothing: whoever asks is refused, as lite topics are not served."""
    return ()


def _needs_of_telemetry(command: messages.TelemetryCommand, namespace: str) -> tuple[Need, ...]:
    if command.WhichOneof("command") != "settings":
        return ()
    told = command.settings
    if told.WhichOneof("pub_sub") == "publishing":
        return tuple(_topic(PUB, each, namespace) for each in told.publishing.topics)
    return (_group(told.subscription.group, namespace),
            *[_topic(SUB, entry.topic, namespace) for entry in told.subscription.subscriptions])


_Asked = TypeVar("_Asked", bound=ClientRequest)


def _row(kind: type[_Asked], read: Callable[[_Asked, str], tuple[Need, ...]],
         ) -> tuple[type[ProtobufMessage], Callable[[Any, str], tuple[Need, ...]]]:
    """The kind of request and its needs. The type checker compares both here, as a table cannot say so of its rows."""
    return kind, read


_NEEDS = dict((
    _row(messages.AckMessageRequest, _needs_of_consumer),
    _row(messages.ChangeInvisibleDurationRequest, _needs_of_consumer),
    _row(messages.EndTransactionRequest, _needs_of_ending),
    _row(messages.ForwardMessageToDeadLetterQueueRequest, _needs_of_consumer),
    _row(messages.HeartbeatRequest, _needs_of_heartbeat),
    _row(messages.NotifyClientTerminationRequest, _needs_of_termination),
    _row(messages.QueryAssignmentRequest, _needs_of_consumer),
    _row(messages.QueryRouteRequest, _needs_of_route),
    _row(messages.RecallMessageRequest, _needs_of_recall),
    _row(messages.ReceiveMessageRequest, _needs_of_receive),
    _row(messages.SendMessageRequest, _needs_of_send),
    _row(messages.SyncLiteSubscriptionRequest, _needs_of_lite),
    _row(messages.TelemetryCommand, _needs_of_telemetry),
))
