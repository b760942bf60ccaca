"""RocketMQ's own evaluator of policies, asked about ours.

As a program it writes tests/golden/policies-5.3.3.jsonl anew: python -m tests.interop.policy_verdicts
"""

import json
import random
import subprocess
from pathlib import Path
from typing import Any

from tests.interop.toolchain import java_policies, tool

GOLDEN = Path(__file__).parents[1] / "golden" / "policies-5.3.3.jsonl"
SETS = 260
_RESOURCES = ("Topic:orders", "Topic:orders-eu", "Topic:ord*", "Topic:orders*", "Topic:o*", "Topic:*", "Group:orders",
              "Group:billing", "Group:bil*", "Group:*", "Cluster:DefaultCluster", "Cluster:*", "Namespace:ns1", "*")
_ASKED = ("Topic:orders", "Topic:orders-eu", "Topic:order", "Topic:other", "Group:orders", "Group:billing", "Group:x",
          "Cluster:DefaultCluster", "Namespace:ns1")
_ACTIONS = ("Pub", "Sub", "Create", "Update", "Delete", "Get", "List")
_WANTED = (("Pub",), ("Sub",), ("Sub", "Get"), ("Pub", "Sub", "Get"), ("Create",), ("Update",), ("Delete",), ("List",))
_SOURCES = ((), (), (), ("10.0.0.1",), ("10.0.0.0/24",), ("192.168.1.7", "10.0.0.128/25"), ("0.0.0.0/0",), ("fe80::1",),
            ("fe80::/64",))
_FROM = ("10.0.0.1", "10.0.0.200", "10.0.1.1", "192.168.1.7", "fe80::1")

Entry = dict[str, Any]


def made(seed: int) -> dict[str, Any]:
    """Policies of one user, and requests."""
    chance = random.Random(seed)
    policies = [{"policyType": kind, "entries": [_entry(chance, resource) for resource in
                                                 chance.sample(_RESOURCES, chance.randint(1, 5))]}
                for kind in chance.choice((("Custom",), ("Custom",), ("Default",), ("Custom", "Default")))]
    requests = [{"resource": chance.choice(_ASKED), "actions": list(chance.choice(_WANTED)),
                 "source": chance.choice(_FROM)} for _ in range(12)]
    return {"policies": policies, "requests": requests}


def _entry(chance: random.Random, resource: str) -> Entry:
    actions = ["All"] if chance.random() < 0.3 else sorted(chance.sample(_ACTIONS, chance.randint(1, 4)))
    entry: Entry = {"resource": resource, "actions": actions, "decision": chance.choice(("Allow", "Allow", "Deny"))}
    sources = list(chance.choice(_SOURCES))
    return {**entry, "sourceIps": sources} if sources else entry


def java_verdicts(asked: list[dict[str, Any]]) -> list[str]:
    lines = "".join(json.dumps(each) + "\n" for each in asked)
    done = subprocess.run([tool("java"), "-cp", java_policies("5.3.3"), "PolicyVerdicts"], input=lines,
                          capture_output=True, encoding="utf-8", check=True, timeout=300)
    return done.stdout.splitlines()


def expected(case: dict[str, Any], alone: dict[str, str]) -> str:
    """What the order decides that RocketMQ describes, of the entries that match by what RocketMQ does with each alone.

    Its own sort takes the shorter prefix before the longer, Allow before Deny, and mixes literal names with prefixes.
    """
    verdicts = ""
    for place in range(len(case["requests"])):
        found = "n"
        for kind in ("Custom", "Default"):
            matching = [entry for policy in case["policies"] if policy["policyType"] == kind
                        for entry in policy["entries"] if alone[json.dumps(entry)][place] in "ad"]
            if matching:
                first = min(matching, key=lambda entry: (_specificity(entry["resource"]),
                                                         entry["decision"] == "Allow"))
                found = "a" if first["decision"] == "Allow" else "d"
                break
        verdicts += found
    return verdicts


def _specificity(resource: str) -> tuple[int, int]:
    """Smaller is more specific."""
    if resource == "*":
        return 3, 0
    name = resource.split(":")[1]
    if name == "*":
        return 2, 0
    return (1, -len(name)) if name.endswith("*") else (0, 0)


def write_golden() -> None:
    cases = [made(seed) for seed in range(SETS)]
    singles = [({"policies": [{"policyType": "Custom", "entries": [entry]}], "requests": case["requests"]}, entry,
                place)
               for place, case in enumerate(cases) for policy in case["policies"] for entry in policy["entries"]]
    alone: list[dict[str, str]] = [{} for _ in cases]
    answers = java_verdicts([single for single, _, _ in singles])
    for (_, entry, place), verdict in zip(singles, answers, strict=True):
        alone[place][json.dumps(entry)] = verdict
    lines = [json.dumps({**case, "java": java, "expected": expected(case, alone[place])})
             for place, (case, java) in enumerate(zip(cases, java_verdicts(cases), strict=True))]
    GOLDEN.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write_golden()
