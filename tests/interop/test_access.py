"""Accounts: official clients sign and are checked, and mqadmin of 4.9.8 changes accounts as at the real broker."""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from admin import AdminTool
from clients import GO, JAVA, OURS, Client, ClientFailed, RunningClient
from conftest import NewRun, make_server
from real_rocketmq import RealRocketMQ
from regulus_server import RegulusServer

from regulus.access.plain_acl import PlainAcl, parse

ACCOUNTS = """accounts:
- accessKey: operator
  secretKey: secret-of-the-operator
  admin: true
- accessKey: the-user
  secretKey: secret-of-the-user
  defaultTopicPerm: DENY
  defaultGroupPerm: DENY
  topicPerms:
{topics}
  - Hidden=SUB
  groupPerms:
{groups}
"""
CLIENTS = (JAVA["4.9.8"], JAVA["5.3.3"], GO, OURS)
USER = {"access_key": "the-user", "secret_key": "secret-of-the-user"}
TOOL = "accessKey: operator\nsecretKey: secret-of-the-operator\n"
COUNT = 4

Guarded = RegulusServer | RealRocketMQ


def topic_of(client: Client) -> str:
    return "Allowed-" + client.name.replace(".", "_")


def group_of(client: Client) -> str:
    return "CG-" + client.name.replace(".", "_")


def accounts() -> str:
    return ACCOUNTS.format(topics="\n".join(f"  - {topic_of(client)}=PUB|SUB" for client in CLIENTS),
                           groups="\n".join(f"  - {group_of(client)}=SUB" for client in CLIENTS))


def guarded(name: str, run: Path) -> Guarded:
    (run / "conf").mkdir(parents=True, exist_ok=True)
    (run / "conf" / "plain_acl.yml").write_text(accounts())
    return make_server(name, run, aclEnable="true", rocketmqHome=str(run))


@pytest.fixture(scope="module")
def servers(new_run: NewRun) -> Iterator[tuple[Guarded, Guarded]]:
    """(ours, the real one), with the same accounts."""
    pair = [guarded(name, new_run(name)) for name in ("regulus", "java-4.9.8")]
    with ExitStack() as stack:
        def start(server: Guarded) -> None:
            stack.callback(server.kill)
            server.start()

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(start, pair))
        yield pair[0], pair[1]


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_a_client_with_an_account_sends_consumes_and_sends_back(servers, client, new_run):
    home, server, topic = new_run(client.name), servers[0].name_server_address, topic_of(client)
    client.produce(home, namesrv=server, group="PG", topic=topic, prefix="single", count=COUNT, **USER)
    client.produce(home, namesrv=server, group="PG", topic=topic, prefix="batch", mode="batch", count=COUNT, **USER)
    expected = [f"{kind}-{index}" for kind in ("single", "batch") for index in range(COUNT)]
    with client.consume(home, namesrv=server, group=group_of(client), topic=topic, fail_prefix="single-0",
                        max_reconsume=1, **USER) as consumer:
        consumer.wait_for_bodies(expected)
        consumer.wait_until(lambda: consumer.bodies().count("single-0") >= 2, "the retry of what was sent back")


@pytest.mark.parametrize("client", [JAVA["4.9.8"], JAVA["5.3.3"]], ids=lambda client: client.name)
def test_transactions_are_ended_with_a_topic_and_without(servers, client, new_run):
    """The client of 4.9.8 names none, that of 5.3.3 the one of all halves when it is asked. Message 0 is committed at
    once, 1 rolled back, 2 committed when it is asked."""
    home, server, topic = new_run(f"transactions-{client.name}"), servers[0].name_server_address, topic_of(client)
    with RunningClient(client, home, "transact", {
            "namesrv": server, "topic": topic, "group": "PG-transactions", "prefix": "t", "count": 3,
            "says": "COMMIT_MESSAGE,ROLLBACK_MESSAGE,UNKNOW", "checks": "UNKNOW,UNKNOW,COMMIT_MESSAGE",
            **USER}) as producer:
        producer.wait_for_start()
        with client.consume(home / "consumer", namesrv=server, group=group_of(client), topic=topic, **USER) as consumer:
            consumer.wait_until(lambda: {"t-0", "t-2"} <= set(consumer.bodies()), "what was committed")
            consumer.finish()
            assert "t-1" not in consumer.bodies()
        producer.finish()


WRONG = {"access_key": "the-user", "secret_key": "another secret"}
DENIED = [*(pytest.param(client, "Hidden", USER, id=f"{client.name}-forbidden") for client in CLIENTS),
          *(pytest.param(client, "", WRONG, id=f"{client.name}-wrong-secret") for client in CLIENTS),
          pytest.param(GO, "", {}, id="go-unsigned")]


@pytest.mark.parametrize(("client", "topic", "signs"), DENIED)
def test_a_client_that_may_not_is_told(servers, client, topic, signs, new_run):
    with pytest.raises(ClientFailed, match=r"AclException|DESC: |org\.apache\.rocketmq\.acl"):
        client.produce(new_run(client.name), namesrv=servers[0].name_server_address, group="PG",
                       topic=topic or topic_of(client), prefix="x", count=1, **signs)


# --- mqadmin of 4.9.8 ------------------------------------------------------------------------------------------------

_OF_ONE_RUN = ((re.compile(r"PlainAccessConfig@[0-9a-f]+"), "<config>"),
               (re.compile(r"127\.0\.0\.1:\d+"), "<address>"),
               (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"), "<time>"),
               (re.compile(r"/\S+/plain_acl\.yml"), "<file>"),
               (re.compile(r"[ \t]+"), " "))
COMMANDS = {
    "clusterAclConfigVersion -b {broker}": "DefaultCluster broker-a <address> <file> 0 ",
    "updateAclConfig -b {broker} -a newcomer -s 87654321 -w 10.0.0.* -i DENY -u SUB -t Ta=DENY,Tb=PUB|SUB -g Ga=SUB "
    "-m false": "create or update plain access config to <address> success",
    "updateAclConfig -c DefaultCluster -a newcomer -s another-secret -m false":
        "create or update plain access config to <address> success",
    "updateAclConfig -b {broker} -a brief -s short": "CODE: 209 ",
    "updateGlobalWhiteAddr -b {broker} -g 10.10.103.*,192.168.0.*":
        "update global white remote addresses to <address> success",
    "clusterAclConfigVersion -c DefaultCluster": "DefaultCluster broker-a <address> <file> 3 <time>",
    "updateAclConfig -b {broker} -a shortlived -s 12345678": "success",
    "deleteAclConfig -b {broker} -a shortlived": "delete plain access config account from <address> success",
    "deleteAclConfig -b {broker} -a nobody-here": "CODE: 210 ",
    "updateTopic -b {broker} -t MadeByOperator": "create topic to <address> success",
}
_WORDS_DIFFER = ("CODE: ",)
"""Where it is refused, both say the code, and each in its own words why."""


@pytest.fixture(scope="module")
def printed(servers, new_run) -> list[dict[str, str]]:
    """What each command prints, at ours and at the real one."""
    def run_all(server: Guarded) -> dict[str, str]:
        home = new_run("mqadmin-4.9.8")
        (home / "conf").mkdir(parents=True)
        (home / "conf" / "tools.yml").write_text(TOOL)
        with AdminTool("4.9.8", home, server.name_server_address) as tool:
            return {command: shown(tool.run(*command.format(broker=server.broker_address).split()))
                    for command in COMMANDS}

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(run_all, servers))


def shown(text: str) -> str:
    for pattern, value in _OF_ONE_RUN:
        text = pattern.sub(value, text)
    return text


@pytest.mark.parametrize("command", COMMANDS)
def test_mqadmin_prints_what_it_prints_at_the_real_broker(printed, command):
    ours, real = (each[command] for each in printed)
    assert COMMANDS[command] in ours
    assert COMMANDS[command] in real
    if not COMMANDS[command].startswith(_WORDS_DIFFER):
        assert ours == real


def test_the_files_grant_the_same_afterwards(servers, printed):
    """Each as its own broker wrote it."""
    def written(server: Guarded) -> PlainAcl:
        return parse((Path(server.home) / "conf" / "plain_acl.yml").read_text(), "plain_acl.yml")

    ours, real = (written(server) for server in servers)
    assert {entry.access_key: entry for entry in ours.accounts} == {entry.access_key: entry
                                                                    for entry in real.accounts}
    assert (ours.white_addresses, ours.counter) == (real.white_addresses, real.counter)
