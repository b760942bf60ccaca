"""Checks of name servers, of the topic's route, and of brokers."""

from collections.abc import Iterator

from regulus.client.core.routes import MASTER_ID
from regulus.diagnosis.facts import BrokerFacts, Facts
from regulus.diagnosis.findings import Cause, Finding, Level
from regulus.diagnosis.texts import near_text, perm_text, route_text
from regulus.model import permission
from regulus.model.wording import counted

JAVA_DISK_WARNING_RATIO = 0.90
"""Used part of the disk at which RocketMQ refuses messages, unless it is set."""

_HEALTHY = "ok"


def name_servers_differ(facts: Facts) -> Iterator[Finding]:
    asked = [each for each in facts.topic.name_servers if not each.failure]
    texts = {each.address: route_text(each.route) for each in asked}
    if len(set(texts.values())) > 1:
        yield Finding(Cause.NAME_SERVERS_DIFFER, f"Name servers disagree about the route of topic {facts.topic.name}.",
                      tuple(f"{address} has {text}." for address, text in texts.items()),
                      "Give all brokers the same list of name servers (namesrvAddr), and start brokers again that one "
                      "of them does not have; a route spreads within 30 s.")


def name_server_silent(facts: Facts) -> Iterator[Finding]:
    silent = [each for each in facts.topic.name_servers if each.failure]
    if silent and len(silent) < len(facts.topic.name_servers):
        yield Finding(Cause.NAME_SERVER_SILENT, "Not all name servers answer; clients use the others.",
                      tuple(f"{each.address}: {each.failure}." for each in silent),
                      "Start them, or take them out of the clients' list.", Level.NOTE)


def no_route(facts: Facts) -> Iterator[Finding]:
    topic = facts.topic
    if topic.name and topic.name_servers and topic.route is None and any(
            not each.failure for each in topic.name_servers):
        silent = [f"{each.text} does not answer: {each.failure}." for each in facts.brokers if each.failure]
        yield Finding(Cause.NO_ROUTE, f"Topic {topic.name} has no route: it does not exist, or no broker that serves "
                                      "it "
                      f"is up{near_text(topic.near_names)}",
                      (f"Registered: {counted(len(facts.brokers), 'broker')}.", *silent),
                      f"Correct the name, create it with `regulus topic create {topic.name}`, or start its broker.")


def broker_silent(facts: Facts) -> Iterator[Finding]:
    for broker in _concerned(facts):
        if broker.failure:
            yield Finding(Cause.BROKER_SILENT, f"Broker {broker.text} does not answer; messages that it has wait "
                          "there.", (f"{broker.failure}.",),
                          "Start it, or find out what blocks the network to its address. It is still in the route, so "
                          "clients keep trying.", _of_master(broker))


def master_away(facts: Facts) -> Iterator[Finding]:
    names = {each.broker_name for each in facts.topic.route.broker_datas} if facts.topic.route else set()
    for name in sorted(names):
        if facts.master(name) is None:
            slaves = [each for each in facts.brokers if each.name == name]
            yield Finding(Cause.MASTER_AWAY, f"Broker {name} has no master: sends, retries and pops fail there, and "
                          "messages that its slaves do not have wait at the master.",
                          tuple(f"{each.text} is there." for each in slaves),
                          "Start the master, or promote a slave (docs/replication.md).")


def topic_permissions(facts: Facts) -> Iterator[Finding]:
    """Whether the topic, and each of its brokers, can be read and written."""
    for data in facts.topic.route.queue_datas if facts.topic.route else ():
        if not _is_concerned(facts, data.broker_name):
            continue
        master = facts.master(data.broker_name)
        broker_perm = _number(master.settings.get("brokerPermission") if master else None)
        perms = [(f"Topic {facts.topic.name} at {data.broker_name}", data.perm)]
        if broker_perm is not None:
            perms.append((f"Broker {data.broker_name}", broker_perm))
        for noun, perm in perms:
            if not permission.is_readable(perm):
                yield Finding(Cause.TOPIC_NOT_READABLE, f"{noun} permits {perm_text(perm)}: no consumer gets messages.",
                              (f"Its permission is {perm}.",), _perm_remedy(facts, noun))
                break
        for noun, perm in perms:
            if not permission.is_writable(perm):
                yield Finding(Cause.TOPIC_NOT_WRITABLE, f"{noun} permits {perm_text(perm)}: sends are refused.",
                              (f"Its permission is {perm}.",), _perm_remedy(facts, noun))
                break


def _perm_remedy(facts: Facts, noun: str) -> str:
    if noun.startswith("Broker"):
        return "Set brokerPermission=6 at the broker."
    return (f"Set its permission to 6 (`regulus topic create {facts.topic.name} --perm 6`), or give the broker its "
            "write permission back if it was taken at the name servers.")


def access_denied(facts: Facts) -> Iterator[Finding]:
    denied = [each for each in facts.unknown if each.is_denied]
    if denied:
        yield Finding(Cause.ACCESS_DENIED, "Servers deny requests to these credentials.",
                      tuple(f"{each.what}: {each.why}." for each in denied),
                      "Give --access-key and --secret-key of a user that may read the topic and the group; if these "
                      "are the credentials of the service, extend its permissions (`regulus acl explain`).")


def slave_behind(facts: Facts) -> Iterator[Finding]:
    message = facts.message.original if facts.message is not None else None
    if message is None or facts.message is None or facts.message.queue is None:
        return
    name = facts.message.queue.broker_name
    master = facts.master(name)
    if master is None or master.settings.get("slaveReadEnable") != "true":
        return
    for slave in facts.brokers:
        end = _number(slave.state.get("commitLogMaxOffset"))
        if slave.name == name and slave.broker_id != MASTER_ID and end is not None and end <= message.physical_offset:
            yield Finding(Cause.SLAVE_BEHIND, f"Consumers that are far behind read from {slave.text}, which does not "
                                              "have "
                          "the message yet.",
                          (f"Its log ends at {end}; the message is at {message.physical_offset}.",),
                          "Wait until the slave has caught up (`regulus cluster list` shows how far it is behind), or "
                          "set slaveReadEnable=false.", Level.WAITS)


def disk_full(facts: Facts) -> Iterator[Finding]:
    for broker in _concerned(facts):
        ratio = _decimal(broker.state.get("commitLogDiskRatio"))
        if "diskFull" in broker.state:
            is_full = broker.state["diskFull"] == "true"
        else:
            limit = _decimal(broker.settings.get("diskSpaceWarningLevelRatio")) or JAVA_DISK_WARNING_RATIO
            is_full = ratio is not None and ratio >= (limit / 100 if limit > 1 else limit)
        if is_full:
            yield Finding(Cause.DISK_FULL, f"The disk of {broker.text} is full: it refuses sends, retries and pops.",
                          (f"{round((ratio or 0) * 100)} % are used.",),
                          "Free the disk, or keep messages for less time (fileReservedTime, docs/operations.md).",
                          _of_master(broker))


def store_ill(facts: Facts) -> Iterator[Finding]:
    for broker in _concerned(facts):
        health = broker.state.get("health", _HEALTHY)
        if health != _HEALTHY:
            yield Finding(Cause.STORE_ILL, f"{broker.text} reports that it is not healthy.", (f"{health}.",),
                          "Read its log; docs/operations.md lists what it may say.", _of_master(broker))


def archive_gate(facts: Facts) -> Iterator[Finding]:
    for broker in _concerned(facts):
        report = broker.state.get("archiveGateReport", "")
        if report:
            yield Finding(Cause.ARCHIVE_GATE, f"{broker.text} keeps files for the archive, and its disk needs room.",
                          (f"{report}.",), "Run `regulus archive run`, or set archiveGate=off.")


def _of_master(broker: BrokerFacts) -> Level:
    """The level of a fault: that of a slave stops no message."""
    return Level.CAUSE if broker.broker_id == MASTER_ID else Level.NOTE


def _concerned(facts: Facts) -> list[BrokerFacts]:
    """Brokers of the topic; only that of the message when it is known where the message is."""
    return [each for each in facts.route_brokers() if _is_concerned(facts, each.name)]


def _is_concerned(facts: Facts, broker_name: str) -> bool:
    queue = facts.message.queue if facts.message is not None else None
    return queue is None or queue.broker_name == broker_name


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() and len(text) < 20 else None


def _decimal(text: str | None) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        return None
