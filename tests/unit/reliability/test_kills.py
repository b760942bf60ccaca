"""Relay and consumer are killed while they work, by seed: what was committed is booked once, and nothing else."""

import random
import subprocess
import sys

import pytest

from .consumed import wait_until
from .shop import booked, count_stubs, place_orders

KILLS = 4


def start_worker(engine, server) -> "subprocess.Popen[str]":
    address = engine.url.render_as_string(hide_password=False)
    worker = subprocess.Popen([sys.executable, "-m", "tests.unit.reliability.worker", address,
                               server.name_server_address], stdout=subprocess.PIPE, text=True)
    assert worker.stdout is not None
    assert worker.stdout.readline() == "works\n"
    return worker


@pytest.mark.parametrize("seed", [1])
async def test_w2_to_w15_what_was_committed_is_booked_once_whenever_a_worker_is_killed(engine, regulus_server, seed):
    chance = random.Random(seed)
    ids = [f"order-{number:03}" for number in range(60 * (KILLS + 1))]
    for kill in range(KILLS):
        place_orders(engine, *ids[60 * kill:60 * kill + 60])
        worker = start_worker(engine, regulus_server)
        wanted = 60 * kill + chance.randrange(1, 60)
        await wait_until(lambda wanted=wanted: count_stubs(engine, status="CONFIRMED") >= wanted)
        worker.kill()
        worker.communicate()
    place_orders(engine, *ids[60 * KILLS:])
    worker = start_worker(engine, regulus_server)
    try:
        await wait_until(lambda: count_stubs(engine, status="CONFIRMED") == len(ids))
    finally:
        worker.kill()
        worker.communicate()
    assert booked(engine) == ids
