"""Policies decide as RocketMQ 5.3.3's own evaluator says (tests/interop/policy_verdicts.py made the file)."""

import json
from pathlib import Path
from typing import Any

import pytest

from regulus.access.decision import Action, Allowed, Need, ResourceKind
from regulus.access.user_rules import Switches, User, UserRules
from regulus.access.user_words import policies_of
from regulus.wire.bodies import AclInfo

CASES = [json.loads(line) for line in (Path(__file__).parent / "policies-5.3.3.jsonl").read_text().splitlines()]
DIFFERENT_MAX = 15
"""Of 3,120 requests: there RocketMQ's sort does not follow the order that it describes."""


def verdicts(case: dict[str, Any]) -> str:
    info = AclInfo.decode(json.dumps({"subject": "User:someone", "policies": case["policies"]}).encode())
    user = User(name="someone", secret="a-secret", policies=policies_of(info.policies or ()))
    rules = UserRules(Switches(cluster="DefaultCluster"), {"someone": user})
    return "".join(letter(rules, request) for request in case["requests"])


def letter(rules: UserRules, request: dict[str, Any]) -> str:
    kind, name = request["resource"].split(":")
    need = Need(ResourceKind(kind), name, tuple(Action(action) for action in request["actions"]))
    verdict = rules.permit("someone", request["source"], (need,))
    if isinstance(verdict, Allowed):
        return "a"
    return "d" if verdict.remark.endswith("the decision is deny.") else "n"


@pytest.mark.parametrize("place", range(len(CASES)))
def test_policies_decide_in_the_order_that_rocketmq_describes(place):
    assert verdicts(CASES[place]) == CASES[place]["expected"]


def test_rocketmq_says_the_same_but_where_its_sort_fails():
    pairs = [pair for case in CASES for pair in zip(case["java"], case["expected"], strict=True)]
    different = [pair for pair in pairs if pair[0] != pair[1]]
    assert len(pairs) == 3120
    assert len(different) == DIFFERENT_MAX
    assert {frozenset(pair) for pair in different} == {frozenset("ad")}
