"""`regulus job outbox`, over the tables of a database file and a store."""

import json

import pytest
from click.testing import CliRunner
from sqlalchemy import create_engine

from regulus.cli.exit_codes import ExitCode
from regulus.cli.main import regulus
from regulus.reliability import tables
from tests.stores import a_message, dispatch, open_store
from tests.unit.reliability.shop import be_stored, place_orders, set_stub, shop

pytestmark = [pytest.mark.spark, pytest.mark.jobs]


@pytest.fixture
def places(tmp_path):
    """Of a database with the orders 1, 2 and 3, and of a store that has 1 and lost 2; 3 was never sent, and is told to
    a human."""
    address = f"sqlite:///{tmp_path / 'shop.sqlite'}"
    (tmp_path / "shop.sqlite").touch()
    engine = create_engine(address)
    with engine.begin() as connection:
        shop.create_all(connection)
        tables.create(connection)
    place_orders(engine, "1", "2", "3")
    for offset, each in enumerate("12"):
        be_stored(engine, each, offset)
    set_stub(engine, "3", is_manual=True)
    store = open_store(tmp_path / "store")
    store.append(a_message("orders", BUSINESS_ID="1"), 1_700_000_000_000)
    dispatch(store)
    store.close()
    engine.dispose()
    return "--database", address, "--store", str(tmp_path / "store")


def run(*words: str):
    return CliRunner().invoke(regulus, ("job", "outbox", *words))


def test_a_dry_run_says_what_it_would_do(spark, places):
    shown = run(*places)
    assert shown.exit_code == 0, shown.output
    *_, verdict = shown.stdout.splitlines()
    assert verdict == ("1 lost, 1 stuck, 1 waiting; 1 would be due again; nothing was written: this was a dry run")
    assert "its place was looked at, and it is not there" in shown.stdout
    document = json.loads(run(*places, "--output", "json", "--limit", "1").stdout)
    assert (document["verdicts"], document["due"], document["would_be_due"]) == (
        {"lost": 1, "stuck": 1, "waiting": 1}, None, 1)
    [row] = document["rows"]
    assert (row["message_id"], row["verdict"], row["queue_offset"]) == ("2", "lost", 1)


def test_lost_stubs_are_made_due(spark, places):
    shown = run(*places, "--send", "--cap", "5")
    assert shown.stdout.splitlines()[-1] == "1 lost, 1 stuck, 1 waiting; 1 due now, for the relay to send"
    again = run(*places, "--send", "--cap", "5", "--policy", "attempts_max=1")
    assert again.stdout.splitlines()[-1].startswith("1 stuck, 1 unknown, 1 waiting; 0 due now")


@pytest.mark.parametrize(("words", "says", "code"), [
    (["--send"], "--send needs --cap", ExitCode.USAGE),
    (["--send", "--cap", "1", "--accept-gaps"], "--accept-gaps and --send do not go together", ExitCode.USAGE),
    (["--policy", "attempts=1"], "'attempts=1' is not NAME=NUMBER with a name of age_max_ms, attempts_max",
     ExitCode.USAGE),
    (["--policy", "attempts_max=0"], "attempts_max is 0; it must be 1 to 1000", ExitCode.USAGE),
    (["--effects", "the same"], "the effects are in the database of the stubs", ExitCode.REFUSED),
    (["--brokers", "broker-a"], "a store's files do not tell which brokers there are", ExitCode.REFUSED)])
def test_what_is_not_said_rightly_is_refused_before_spark_starts(places, monkeypatch, words, says, code):
    started: list[str] = []
    monkeypatch.setattr("regulus.cli.job_run.command_session", lambda master, *_: started.append(master))
    refused = run(*places, *[word.replace("the same", places[1]) for word in words])
    assert (refused.exit_code, started) == (code, [])
    assert says in refused.stderr


def test_a_database_that_does_not_answer_is_told_without_its_password(spark, places):
    refused = run("--database", "postgresql+psycopg://ann:secret@127.0.0.1:1/shop", *places[2:])
    assert refused.exit_code == 4
    assert "127.0.0.1" in refused.stderr
    assert "secret" not in refused.output
