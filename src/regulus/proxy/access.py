"""Access control of gRPC calls: the signature in a call's headers, and the permissions that the call needs.

    MQv2-HMAC-SHA1 Credential=<access key>[/<region>/<service>], SignedHeaders=x-mq-date-time, Signature=<hex>

The signature is the HMAC-SHA1 of the header `x-mq-date-time` exactly as sent, and of nothing else. The time in it is
not checked, because clients write local times. Accounts and permissions are those of the brokers.

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
"""Characters of the header `authorization`. A longer one counts as unsigned: parsing is not free, and a stranger sent
it."""
_EITHER = (Action.PUB, Action.SUB)
"""What a route needs: one of the two, as producers and consumers both ask for it."""

ClientRequest = (
    messages.AckMessageRequest | messages.ChangeInvisibleDurationRequest | messages.EndTransactionRequest
    | messages.ForwardMessageToDeadLetterQueueRequest | messages.HeartbeatRequest
    | messages.NotifyClientTerminationRequest | messages.QueryAssignmentRequest | messages.QueryRouteRequest
    | messages.RecallMessageRequest | messages.ReceiveMessageRequest | messages.SendMessageRequest
    | messages.SyncLiteSubscriptionRequest | messages.TelemetryCommand)
"""The requests of clients; each type has a row in `_NEEDS`."""


class CallAccess:
    """Checks calls against the rules that `rules` returns. `happenings` collects denied calls, each with its reason."""

    def __init__(self, rules: Callable[[], Rules]) -> None:
        self._rules = rules
        self._seen: Rules | None = None
        self.happenings = Happenings()

    def has_changed(self) -> bool:
        """Whether the rules changed since the last call. While no rules are known, every call is refused, so nothing
        that was let in has to be checked again."""
        try:
            rules = self._rules()
        except CallRefused:
            return False
        before, self._seen = self._seen, rules
        return rules is not before

    @property
    def rules(self) -> Rules:
        """The rules that hold now, a new object after each change. Raises CallRefused while none are known."""
        return self._rules()

    def check(self, method: str, request: ClientRequest, caller: Caller) -> str:
        """The name of the user who signed the call; empty for an unsigned call from a white address. Raises CallRefused
        UNAUTHORIZED."""
        return self._permitted(method, caller, needs(request, caller.namespace))

    def check_signature(self, method: str, caller: Caller) -> None:
        """Check, before the request is read, that its signer may call at all. Raises CallRefused UNAUTHORIZED."""
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
        """Whether the user may end transactions of the topic now. The rules may have changed since the user's last
        call."""
        return not isinstance(self._rules().permit(user, host, ending_needs(topic)), Denied)


def signer(caller: Caller, rules: Rules) -> str | None:
    """The name of the user who signed the call; None for a missing or wrong signature, or an unknown user."""
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
    """The permissions that a call needs; none if it concerns only its own client. Raises KeyError for a request without
    a row."""
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
    """None: lite topics are not served, and every such call is refused."""
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
    """A request type and the function that reads its needs. The type checker compares the two here; in the rows of a
    table it cannot."""
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
