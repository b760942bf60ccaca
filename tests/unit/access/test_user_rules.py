"""Users and policies: who is let in, and by which rule."""

import pytest

from regulus.access.decision import ANY_NAME, Action, Allowed, Denied, Need, RequestFacts, ResourceKind
from regulus.access.policies import (
    Decision,
    Policy,
    PolicyEntry,
    PolicyType,
    in_order,
    parse_entry,
    parse_resource,
    updated,
    without,
)
from regulus.access.user_rules import Switches, User, UserRules, UserStatus, UserType
from regulus.errors import ConfigError, HeaderError
from regulus.wire.acl_signature import sign
from regulus.wire.remoting_command import RemotingCommand

HERE = "10.0.0.1"
NO_PERMISSION = 16
SECRETS = {"root": "secret-of-root", "alice": "secret-of-alice", "gone": "secret-of-gone"}


def entry(resource: str, decision: str = "Allow", actions: tuple[str, ...] = ("All",),
          sources: tuple[str, ...] = ()) -> PolicyEntry:
    return parse_entry(resource, actions, sources, decision)


def rules(*entries: PolicyEntry, default: tuple[PolicyEntry, ...] = (), **switches) -> UserRules:
    policies = [Policy(PolicyType.DEFAULT, default)] if default else []
    if entries:
        policies.append(Policy(PolicyType.CUSTOM, entries))
    users = {"root": User(name="root", secret=SECRETS["root"], type=UserType.SUPER),
             "alice": User(name="alice", secret=SECRETS["alice"], policies=tuple(policies)),
             "gone": User(name="gone", secret=SECRETS["gone"], type=UserType.SUPER, status=UserStatus.DISABLE)}
    return UserRules(Switches(cluster="DefaultCluster", **switches), users)


def topic(name: str, *actions: Action) -> Need:
    return Need(ResourceKind.TOPIC, name, actions or (Action.PUB,))


def may(by: UserRules, *needs: Need, user: str = "alice", source: str = HERE) -> bool:
    return isinstance(by.permit(user, source, needs), Allowed)


def facts(user: str | None, secret: str = "", needs: tuple[Need, ...] = (), code: int = 10, body: bytes = b"tea",
          fault: Exception | None = None) -> RequestFacts:
    request = RemotingCommand.request(code, {"topic": "T"}, body)
    if user is not None:
        sign(request, user, secret or SECRETS.get(user, "none"))

    def read() -> tuple[Need, ...]:
        if fault is not None:
            raise fault
        return needs
    return RequestFacts(code=code, source=HERE, ext=request.ext, body=request.body, needs=read)


@pytest.mark.parametrize(("user", "secret", "remark"), [
    (None, "", "username cannot be null."),
    ("nobody", "secret-of-nobody", "User:nobody is not found."),
    ("gone", "", "User:gone is disabled."),
    ("alice", "another-secret", "check signature failed."),
    ("alice", "", "User:alice has no permission to access Topic:T from 10.0.0.1, no matched policies.")])
def test_who_is_denied_and_in_which_words(user, secret, remark):
    denied = rules().decide(facts(user, secret, (topic("T"),)))
    assert isinstance(denied, Denied)
    assert (denied.code, denied.remark) == (NO_PERMISSION, remark)
    assert not any(known in denied.rule + denied.remark for known in (*SECRETS.values(), "another-secret"))


def test_the_rule_by_which_a_wrong_signature_is_denied_says_whose_it_should_be():
    denied = rules().decide(facts("alice", "another-secret"))
    assert isinstance(denied, Denied)
    assert denied.rule == "the signature is not made with the secret of alice"


def test_the_body_is_signed_too():
    signed = facts("root")
    forged = RequestFacts(code=signed.code, source=HERE, ext=signed.ext, body=b"coffee", needs=signed.needs)
    assert isinstance(rules().decide(signed), Allowed)
    assert isinstance(rules().decide(forged), Denied)


def test_a_super_user_may_everything_while_enabled():
    assert may(rules(), Need(ResourceKind.CLUSTER, ANY_NAME, (Action.UPDATE,)), topic("T"), user="root")
    assert not may(rules(), topic("T"), user="gone")


def test_a_user_without_policies_may_nothing_that_needs_something():
    assert not may(rules(), topic("T"))
    assert may(rules())


def test_each_need_must_be_met():
    assert may(rules(entry("Topic:a")), topic("a"))
    assert not may(rules(entry("Topic:a")), topic("a"), topic("b"))


@pytest.mark.parametrize(("entries", "name", "allowed"), [
    (("Topic:orders",), "orders", True),
    (("Topic:orders",), "orders-eu", False),
    (("Topic:orders*",), "orders-eu", True),
    (("Topic:orders*",), "order", False),
    (("Topic:*",), "orders", True),
    (("*",), "orders", True),
    (("Group:orders",), "orders", False)])
def test_which_resources_an_entry_matches(entries, name, allowed):
    assert may(rules(*map(entry, entries)), topic(name)) is allowed


@pytest.mark.parametrize(("allow", "deny", "allowed"), [
    ("Topic:orders", "Topic:ord*", True),
    ("Topic:ord*", "Topic:orders", False),
    ("Topic:orders*", "Topic:o*", True),
    ("Topic:o*", "Topic:orders*", False),
    ("Topic:o*", "Topic:*", True),
    ("Topic:*", "*", True),
    ("*", "Topic:*", False)])
@pytest.mark.parametrize("turned", [False, True])
def test_the_more_specific_entry_decides_wherever_it_stands(allow, deny, allowed, turned):
    entries = [entry(allow), entry(deny, "Deny")]
    assert may(rules(*(entries[::-1] if turned else entries)), topic("orders")) is allowed


def test_a_deny_comes_before_an_allow_of_the_same_resource():
    """An entry takes the place of the one before; a document may still have both."""
    both = (entry("Topic:orders"), entry("Topic:orders", "Deny"))
    assert [each.decision for each in in_order(both)] == [Decision.DENY, Decision.ALLOW]
    assert not may(rules(*both), topic("orders"))


def test_custom_entries_hide_default_ones_only_where_they_match():
    by = rules(entry("Topic:orders", "Deny", ("Pub",)), default=(entry("Topic:*"),))
    assert not may(by, topic("orders", Action.PUB))
    assert may(by, topic("orders", Action.SUB))
    assert may(by, topic("other", Action.PUB))


def test_one_of_the_actions_is_enough():
    by = rules(entry("Topic:orders", actions=("Get",)))
    assert may(by, topic("orders", Action.SUB, Action.GET))
    assert not may(by, topic("orders", Action.SUB))


@pytest.mark.parametrize(("sources", "source", "allowed"), [
    ((), "8.8.8.8", True),
    (("10.0.0.1",), "10.0.0.1", True),
    (("10.0.0.1",), "10.0.0.10", False),
    (("10.0.0.0/24",), "10.0.0.255", True),
    (("10.0.0.0/24",), "10.0.1.0", False),
    (("10.0.0.0/24",), "::ffff:10.0.0.9", True),
    (("fe80::/64",), "fe80::1%eth0", True),
    (("::/0",), "10.0.0.1", False),
    (("10.0.0.0/8",), "nowhere", False)])
def test_an_entry_counts_from_its_addresses(sources, source, allowed):
    assert may(rules(entry("Topic:orders", sources=sources)), topic("orders"), source=source) is allowed


def test_all_topics_are_allowed_by_an_entry_for_all_and_denied_by_any_deny():
    everything = topic(ANY_NAME, Action.SUB)
    assert may(rules(entry("Topic:*")), everything)
    assert may(rules(entry("*")), everything)
    assert not may(rules(entry("Topic:o*"), entry("Topic:orders")), everything)
    assert not may(rules(entry("Topic:*"), entry("Topic:secret", "Deny")), everything)
    assert may(rules(entry("Topic:*"), entry("Group:secret", "Deny")), everything)


def test_an_entry_of_the_cluster_names_it():
    needs = Need(ResourceKind.CLUSTER, ANY_NAME, (Action.GET,))
    assert may(rules(entry("Cluster:DefaultCluster", actions=("Get",))), needs)
    assert not may(rules(entry("Cluster:other", actions=("Get",))), needs)


def test_without_authorization_every_signed_request_passes():
    by = rules(authorizes=False)
    assert isinstance(by.decide(facts("alice", needs=(topic("T"),))), Allowed)
    assert isinstance(by.decide(facts("alice", "another-secret")), Denied)


def test_white_lists_of_codes():
    needs = (topic("T"),)
    listed = {"unauthenticated_codes": frozenset({10}), "unauthorized_codes": frozenset({10})}
    assert isinstance(rules(**listed).decide(facts(None, needs=needs)), Allowed)
    assert isinstance(rules(**listed).decide(facts(None, needs=needs, code=11)), Denied)
    alone = rules(unauthenticated_codes=frozenset({10}))
    assert isinstance(alone.decide(facts(None, needs=needs)), Denied)
    assert isinstance(alone.decide(facts("root", "another-secret", needs=needs)), Denied)
    assert isinstance(rules(unauthorized_codes=frozenset({10})).decide(facts("alice", needs=needs)), Allowed)
    assert isinstance(rules(unauthorized_codes=frozenset({10})).decide(facts(None, needs=needs)), Denied)


@pytest.mark.parametrize("fault", [KeyError(99), HeaderError("no such request")])
def test_what_cannot_be_read_is_denied_even_to_a_super_user(fault):
    assert isinstance(rules().decide(facts("root", fault=fault)), Denied)


def test_the_needs_of_strangers_are_not_read():
    assert isinstance(rules().decide(facts("alice", "another-secret", fault=AssertionError("read"))), Denied)


def test_the_secret_of_a_disabled_user_is_none():
    assert [rules().secret_of(user) for user in ("alice", "gone", "nobody")] == ["secret-of-alice", None, None]


# --- what operators write --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["Topic:orders", "Topic:ord*", "Topic:*", "Group:g", "Cluster:c*", "Namespace:n", "*"])
def test_a_resource_is_written_as_it_is_read(text):
    assert str(parse_resource(text)) == text


@pytest.mark.parametrize("text", ["", "orders", "Topic:", "Any:x", "Unknown:x", "Topic:a*b", "Topic:**", "Queue:x",
                                  "Topic:" + "x" * 256, "Topic:a\nb"])
def test_what_is_no_resource(text):
    with pytest.raises(ConfigError, match="is not a resource"):
        parse_resource(text)


@pytest.mark.parametrize(("fields", "fault"), [
    ({"actions": ()}, "no actions"), ({"actions": ("Fly",)}, "'Fly' is not an action"),
    ({"actions": ("Any",)}, "not an action"),
    ({"decision": "Perhaps"}, "not a decision"), ({"decision": None}, "not a decision"),
    ({"sources": ("localhost",)}, "not an address"), ({"sources": ("10.0.0.0/33",)}, "not an address"),
    ({"sources": tuple(f"10.0.0.{n}" for n in range(65))}, "64 are the most")])
def test_what_is_no_entry(fields, fault):
    written = {"resource": "Topic:a", "actions": ("Pub",), "sources": (), "decision": "Allow", **fields}
    with pytest.raises(ConfigError, match=fault):
        parse_entry(**written)


def test_an_entry_takes_the_place_of_the_one_with_its_resource():
    first = updated((), [Policy(PolicyType.CUSTOM, (entry("Topic:a"), entry("Topic:b")))])
    second = updated(first, [Policy(PolicyType.CUSTOM, (entry("Topic:a", "Deny"),)),
                             Policy(PolicyType.DEFAULT, (entry("*"),))])
    assert second == (Policy(PolicyType.CUSTOM, (entry("Topic:a", "Deny"), entry("Topic:b"))),
                      Policy(PolicyType.DEFAULT, (entry("*"),)))
    assert without(second, PolicyType.DEFAULT, parse_resource("*")) == second[:1]
    assert without(second, PolicyType.CUSTOM, parse_resource("*")) == second
