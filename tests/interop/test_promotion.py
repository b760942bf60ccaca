"""A master is killed under load, and its slave made the master by hand: nothing that was answered is lost."""

from contextlib import ExitStack

import pytest
from clients import JAVA, RunningClient
from conftest import NewRun
from pairs import TOPIC, Pair

pytestmark = pytest.mark.long

SENT_BEFORE_KILL = 400
AFTER = 50


@pytest.mark.parametrize("kinds", [("regulus", "regulus"), ("java-5.3.3", "regulus"), ("regulus", "java-5.3.3")],
                         ids="-".join)
def test_a_slave_that_is_made_the_master_has_all_that_was_answered(kinds: tuple[str, str], new_run: NewRun) -> None:
    client, home = JAVA["5.3.3"], new_run("promotion-client")
    with ExitStack() as stack:
        pair = Pair(*kinds, new_run(f"promotion-{'-'.join(kinds)}"), stack)
        options = {"namesrv": pair.name_server, "topic": TOPIC}
        client.produce(home, **options, group="Promoted", prefix="first", count=1)
        pair.await_copy()
        with RunningClient(client, home, "produce", {**options, "group": "Promoted", "prefix": "load",
                                                     "count": 1_000_000}) as load:
            load.wait_until(lambda: len(load.events) >= SENT_BEFORE_KILL, "the load", timeout_s=120)
            pair.kill_master()
        load.take_available()
        sent = [event for event in load.events if event["event"] == "sent"]
        answered = [f"load-{index}" for index, event in enumerate(sent) if event["status"] == "SEND_OK"]
        assert len(answered) >= SENT_BEFORE_KILL // 2
        pair.promote()
        client.produce(home, **options, group="Promoted", prefix="after", count=AFTER)
        with client.consume(home, **options, group="PromotedConsumer") as running:
            running.wait_for_bodies([*answered, *[f"after-{index}" for index in range(AFTER)]], timeout_s=120)
            running.finish()
        pair.add_slave("regulus")
        pair.await_copy("slave", "another")
