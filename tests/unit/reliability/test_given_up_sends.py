"""Kept sends that were given up are an alarm of the outbox's database."""

from pathlib import Path

from regulus.client.config import KeptSendsConfig
from regulus.client.sending.failed_sends import FailedSend
from regulus.client.sending.kept_file import KeptSend
from regulus.client.sending.kept_sends import GivenUpSends, KeptSends
from regulus.errors import ConnectRefused, MessageIllegal
from regulus.model.message import Message
from regulus.reliability import tables
from regulus.reliability.given_up_sends import GivenUpSendsAlarm
from tests.waiting import until

from .deliveries import rows

SEND = KeptSend(7, "Orders", None, "U7", 1, 23, 1_000, 2_000, 16, "BrokerRefused: no permission", True)


def alarms(engine):
    return [(kind, subject, detail, closed is not None) for kind, subject, detail, closed in rows(
        engine, tables.alarms, "kind", "subject", "detail", "closed_time")]


def test_one_alarm_for_a_file_as_long_as_it_has_given_up_sends(engine, monkeypatch):
    monkeypatch.setattr("socket.gethostname", lambda: "shop-1")
    tell = GivenUpSendsAlarm(engine)
    path = Path("/var/lib/shop/orders.kept")
    tell(GivenUpSends(path, 0, []))
    assert alarms(engine) == []
    tell(GivenUpSends(path, 2, [SEND]))
    tell(GivenUpSends(path, 3, [SEND]))
    said = ("GIVEN_UP_SENDS", "shop-1:/var/lib/shop/orders.kept",
            "2 sends are given up, see `regulus message kept`; the first: U7 to Orders, BrokerRefused: no permission")
    assert alarms(engine) == [(*said, False)]
    tell(GivenUpSends(path, 0, []))
    assert alarms(engine) == [(*said, True)]


def test_long_paths_are_told_apart_by_their_ends(engine):
    tell = GivenUpSendsAlarm(engine)
    for name in ("a", "b"):
        tell(GivenUpSends(Path("/", "x" * 200, "y" * 200, name), 1, []))
    assert [subject[-3:] for _, subject, _, _ in alarms(engine)] == ["y/a", "y/b"]


async def test_what_a_producer_gives_up_is_an_alarm(engine, tmp_path):
    async def send(messages, queue):
        raise MessageIllegal("too large")

    kept = KeptSends(tmp_path / "kept", KeptSendsConfig(rest_ms=1, poll_ms=1), on_given_up=GivenUpSendsAlarm(engine))
    await kept.start(send)
    await kept(FailedSend([[Message("T", b"x", properties={"UNIQ_KEY": "U1"})]], None, ConnectRefused("nobody")))
    await until(lambda: alarms(engine))
    await kept.shutdown()
    [(kind, _, detail, is_closed)] = alarms(engine)
    assert (kind, is_closed) == ("GIVEN_UP_SENDS", False)
    assert "U1 to T, MessageIllegal: too large" in detail
