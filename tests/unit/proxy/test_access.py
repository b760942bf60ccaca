"""Signatures of gRPC calls, and what each call needs."""

from typing import Any

import pytest

from regulus.access.decision import Action, Allowed, Denied, Need, RequestFacts, ResourceKind, Verdict
from regulus.errors import CallRefused
from regulus.proxy.access import CallAccess, needs
from regulus.proxy.caller import Caller
from regulus.wire.grpc import messages

# The test vector: HMAC-SHA1 of the date with the secret, in hexadecimal.
DATE, SIGNATURE = "20240102T030405Z", "ba68152c2e9732b52ef93e90593038dfa619d8e7"
SIGNATURE_OF_NO_DATE = "06ab8f5411002dd455cdd2d307f68147396b1ff1"
PUB, SUB = (Action.PUB,), (Action.SUB,)


class OneUser:
    """Rules that know `AK`, who may send to Orders."""

    def decide(self, facts: RequestFacts) -> Verdict:
        raise AssertionError("gRPC calls are no remoting requests")

    def secret_of(self, user: str) -> str | None:
        return "my-secret" if user == "AK" else None

    def permit(self, user: str, source: str, needs: tuple[Need, ...]) -> Verdict:
        if user == "AK" and all(need == Need(ResourceKind.TOPIC, "Orders", PUB) for need in needs):
            return Allowed("the test says so")
        return Denied("the test says no", 1, "no permission for that")


def authorization(signature: str = SIGNATURE, credential: str = "AK") -> str:
    return f"MQv2-HMAC-SHA1 Credential={credential}, SignedHeaders=x-mq-date-time, Signature={signature}"


def send(topic: str = "Orders") -> Any:
    request = messages.SendMessageRequest()
    request.messages.add().topic.name = topic
    return request


def check(text: str, date: str = DATE, topic: str = "Orders") -> None:
    CallAccess(OneUser).check("SendMessage", send(topic), Caller(authorization=text, date_time=date, peer="h:1"))


@pytest.mark.parametrize("text", [
    authorization(), authorization(SIGNATURE.upper()), authorization(credential="AK//Rocketmq"),
    authorization(credential="AK/region/service"),
    f"x Signature={SIGNATURE},Credential=AK"])
def test_who_signed_as_the_clients_do_may(text: str) -> None:
    check(text)


@pytest.mark.parametrize(("text", "date"), [
    ("", DATE), ("MQv2-HMAC-SHA1", DATE), (authorization("0" * 40), DATE), (authorization(""), DATE),
    (authorization(), "20240102T030406Z"), (authorization(), ""),
    (authorization(SIGNATURE_OF_NO_DATE), ""), (authorization(credential=""), DATE),
    (authorization(credential="BK"), DATE), (authorization("ü" * 40), DATE), (authorization() + " " * 2000, DATE)])
def test_who_did_not_may_not(text: str, date: str) -> None:
    with pytest.raises(CallRefused, match="signature is missing or wrong") as refused:
        check(text, date)
    assert refused.value.code == 40100


def test_who_names_a_user_in_place_of_signing_is_nobody() -> None:
    caller = Caller(client_id="AK", language="AK", version="AK", authority="AK", user="AK", date_time=DATE, peer="AK:1")
    with pytest.raises(CallRefused, match="signature is missing or wrong"):
        CallAccess(OneUser).check("SendMessage", send(), caller)


def test_who_may_not_is_told_so_and_is_noted() -> None:
    access = CallAccess(OneUser)
    with pytest.raises(CallRefused, match="no permission for that"):
        access.check("SendMessage", send("Payments"), Caller(authorization=authorization(), date_time=DATE, peer="h:1"))
    ((kind, names),) = access.happenings.take().items()
    assert (kind, str(names)) == ("denied by access control", "SendMessage of h:1: the test says no")


def test_who_may_send_to_one_topic_is_asked_for_transactions_of_no_other() -> None:
    access = CallAccess(OneUser)
    assert access.may_end("AK", "h", "Orders")
    assert not access.may_end("AK", "h", "Payments")
    assert not access.may_end("", "h", "Orders")


def topic(name: str, *actions: Action) -> Need:
    return Need(ResourceKind.TOPIC, name, actions)


GROUP = Need(ResourceKind.GROUP, "g", SUB)
T, G = messages.Resource(name="t"), messages.Resource(name="g")


def settings(**fields: Any) -> Any:
    return messages.TelemetryCommand(settings=messages.Settings(**fields))


@pytest.mark.parametrize(("request_", "expected"), [
    (send("t"), {topic("t", Action.PUB)}),
    (messages.SendMessageRequest(messages=[messages.Message(topic=T), messages.Message(topic=G)]),
     {topic("t", Action.PUB), topic("g", Action.PUB)}),
    (messages.RecallMessageRequest(topic=T), {topic("t", Action.PUB)}),
    (messages.EndTransactionRequest(topic=T), {topic("t", Action.PUB)}),
    (messages.QueryRouteRequest(topic=T), {topic("t", Action.PUB, Action.SUB)}),
    (messages.QueryAssignmentRequest(topic=T, group=G), {GROUP, topic("t", Action.SUB)}),
    (messages.AckMessageRequest(topic=T, group=G), {GROUP, topic("t", Action.SUB)}),
    (messages.ChangeInvisibleDurationRequest(topic=T, group=G),
     {GROUP, topic("t", Action.SUB)}),
    (messages.ForwardMessageToDeadLetterQueueRequest(topic=T, group=G),
     {GROUP, topic("t", Action.SUB)}),
    (messages.ReceiveMessageRequest(group=G, message_queue=messages.MessageQueue(topic=T)),
     {GROUP, topic("t", Action.SUB)}),
    (messages.HeartbeatRequest(client_type=1), set()),
    (messages.HeartbeatRequest(client_type=2, group=G), {GROUP}),
    (messages.HeartbeatRequest(client_type=1, group=G), {GROUP}),
    (messages.HeartbeatRequest(client_type=3), {Need(ResourceKind.GROUP, "", SUB)}),
    (messages.NotifyClientTerminationRequest(), set()),
    (messages.NotifyClientTerminationRequest(group=G), {GROUP}),
    (messages.SyncLiteSubscriptionRequest(topic=T, group=G), set()),
    (settings(publishing=messages.Publishing(topics=[T])), {topic("t", Action.PUB)}),
    (settings(subscription=messages.Subscription(
        group=G, subscriptions=[messages.SubscriptionEntry(topic=T)])), {GROUP, topic("t", Action.SUB)}),
    (messages.TelemetryCommand(thread_stack_trace=messages.ThreadStackTrace(nonce="1")), set())])
def test_what_a_call_needs(request_: Any, expected: set[Need]) -> None:
    assert set(needs(request_)) == expected


def test_what_has_no_row_is_refused_and_not_let_in() -> None:
    with pytest.raises(KeyError):
        needs(messages.PullMessageRequest(group=G))


def test_a_retry_topic_is_its_group_and_a_namespace_counts() -> None:
    assert needs(send("%RETRY%g")) == (GROUP,)
    assert needs(send("t"), "ns") == (topic("ns%t", Action.PUB),)


def test_before_any_rules_are_known_none_have_changed_and_nobody_is_let_in() -> None:
    known: list[OneUser] = []

    def rules() -> OneUser:
        if not known:
            raise CallRefused(50400, "the users are not known here yet")
        return known[-1]

    access = CallAccess(rules)
    assert not access.has_changed()
    with pytest.raises(CallRefused, match="not known here yet"):
        access.check_signature("SendMessage", Caller())
    known.append(OneUser())
    assert [access.has_changed() for _ in range(2)] == [True, False]
    known.append(OneUser())
    assert [access.has_changed() for _ in range(2)] == [True, False]
