"""Servers that ask who somebody is: their settings, what billing may there, and what mqadmin signs with."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

USERS = {
    "authenticationEnabled": "true", "authorizationEnabled": "true",
    "authenticationProvider": "org.apache.rocketmq.auth.authentication.provider.DefaultAuthenticationProvider",
    "authenticationMetadataProvider":
        "org.apache.rocketmq.auth.authentication.provider.LocalAuthenticationMetadataProvider",
    "authorizationProvider": "org.apache.rocketmq.auth.authorization.provider.DefaultAuthorizationProvider",
    "authorizationMetadataProvider":
        "org.apache.rocketmq.auth.authorization.provider.LocalAuthorizationMetadataProvider",
    "initAuthenticationUser": '{"username":"root","password":"secret-of-root"}',
    "innerClientAuthenticationCredentials": '{"accessKey":"brokers","secretKey":"secret-of-brokers"}',
}
"""Users and policies (ACL 2.0): root is the first user and makes the others."""


def signs_as(name: str, home: Path) -> Path:
    """The home of an mqadmin that signs with the secret-of-`name`."""
    (home / "conf").mkdir(parents=True)
    (home / "conf" / "tools.yml").write_text(f"accessKey: {name}\nsecretKey: secret-of-{name}\n")
    return home


OPERATORS = {"users": "root", "accounts": "operator"}
"""Who may do everything, by what guards the server."""
BILLING = {"access_key": "billing", "secret_key": "secret-of-billing"}
_ACCOUNTS = """accounts:
- accessKey: operator
  secretKey: secret-of-operator
  admin: true
- accessKey: billing
  secretKey: secret-of-billing
  defaultTopicPerm: DENY
  defaultGroupPerm: DENY
  topicPerms:
{topics}
  groupPerms:
{groups}
"""


def with_accounts(home: Path, topics: Mapping[str, str], groups: Sequence[str]) -> dict[str, str]:
    """The settings of a server with accounts (ACL 1.0): operator is an admin, and billing has PUB, SUB or PUB|SUB on
    `topics`, and SUB on `groups`."""
    (home / "conf").mkdir()
    (home / "conf" / "plain_acl.yml").write_text(_ACCOUNTS.format(
        topics="\n".join(f"  - {topic}={permission}" for topic, permission in topics.items()),
        groups="\n".join(f"  - {group}=SUB" for group in groups)))
    return {"aclEnable": "true", "rocketmqHome": str(home)}


def billing_commands(broker: str, topics: Mapping[str, str], groups: Sequence[str]) -> Iterator[str]:
    """Of mqadmin: they make the user billing, who may there what `with_accounts` says."""
    yield f"createUser -b {broker} -u billing -p secret-of-billing"
    resources: dict[str, list[str]] = {"PUB": [], "SUB": [f"Group:{group}" for group in groups], "PUB|SUB": []}
    for topic, permission in topics.items():
        resources[permission].append(f"Topic:{topic}")
    for permission, named in resources.items():
        if named:
            actions = permission.title().replace("|", ",")
            yield f"createAcl -b {broker} -s User:billing -r {','.join(named)} -a {actions} -d Allow"


_UNSIGNED = "the signature is missing or wrong: give the client the access key and the secret key of an account"
_BY_US = {"the secret": _UNSIGNED, "a known key": _UNSIGNED, "a key": _UNSIGNED}
_BY_ROCKETMQ = {"the secret": "check signature failed.", "a known key": "User:nobody is not found.",
                "a key": "username cannot be null."}
_NO_POLICY = {wants: f"User:billing has no permission to access {kind}:{{name}} from 127.0.0.1, no matched policies."
              for wants, kind in (("the topic", "Topic"), ("the group", "Group"))}
_NO_PERMISSION = {wants: f"org.apache.rocketmq.acl.common.AclException: No default permission for {kind}:{{name}}"
                  for wants, kind in (("the topic", "topic"), ("the group", "group"))}


def refusal(guard: tuple[str, str], wants: str, name: str) -> str:
    """What billing is told by `guard`, what asks and at which front, for want of the secret, a known key, a key, or the
    permission on the topic or the group of that name."""
    kind, front = guard
    signatures = _BY_ROCKETMQ if front == "java-5.3.3" else _BY_US
    return {**signatures, **(_NO_POLICY if kind == "users" else _NO_PERMISSION)}[wants].format(name=name)
