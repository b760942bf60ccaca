"""The examples run, each against a server of its own."""

import asyncio
import inspect
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.client.ladder import server_with_ladder

CLIENT_EXAMPLES = ("commit_and_apply_once", "keep_failed_sends", "keep_order", "look_around", "many_sends",
                   "receive_for_a_time", "remind_and_recall", "retry_and_dead_letter", "send_and_consume",
                   "transaction", "urgent_first", "without_asyncio")
FOLDER = Path(__file__).resolve().parent.parent / "examples"


def said(name, tmp_path, capsys):
    """What an example prints."""
    main = runpy.run_path(str(FOLDER / f"{name}.py"))["main"]
    with server_with_ladder(tmp_path / "store", "10ms 10ms 10ms 10ms", transaction_check_interval=200,
                            transaction_time_out=200, timer_precision_ms=100, recall_message_enable=True) as server:
        running = main(server.name_server_address)
        if inspect.isawaitable(running):
            async def within_time():
                async with asyncio.timeout(60):
                    await running
            asyncio.run(within_time())
    return capsys.readouterr().out


@pytest.mark.parametrize("name", CLIENT_EXAMPLES)
def test_the_example_runs_to_its_end(name, tmp_path, capsys):
    assert said(name, tmp_path, capsys)


def test_what_is_urgent_is_received_first(tmp_path, capsys):
    assert said("urgent_first", tmp_path, capsys).splitlines() == [
        "3 a heart attack", "1 a cough", "1 a sore throat", "0 a prescription"]


def test_the_example_that_is_killed_runs_to_its_end(regulus_server):
    """As a program of its own: its children look for its functions there."""
    done = subprocess.run([sys.executable, FOLDER / "killed_at_each_step.py", regulus_server.name_server_address],
                          capture_output=True, text=True, timeout=120)
    assert done.stdout.endswith("orders, each booked once\n"), done.stderr


def test_the_simulated_example_loses_nothing(capsys):
    runpy.run_path(str(FOLDER / "simulated.py"), run_name="__main__")
    assert capsys.readouterr().out.count("were stored, and all of them cooked") == 5


def test_orders_are_paid_once(tmp_path, capsys):
    assert said("orders_and_payments", tmp_path, capsys).splitlines() == [
        "order-1 is PAID, by 1 booking",
        "order-2 is DECLINED, by 1 booking",
        "orders: 2 committed = 2 applied, 0 lost, 0 doubled",
        "payments: 2 committed = 2 applied, 0 lost, 0 doubled"]
