"""`regulus outbox` and `regulus ledger`, over a real database file."""

import json
import sqlite3
import time
from contextlib import closing

import pytest
from click.testing import CliRunner
from sqlalchemy import create_engine, delete, insert, select, update

from regulus.cli.main import regulus
from regulus.model.message import Message
from regulus.reliability import alarms, tables
from regulus.reliability.alarms import AlarmKind
from regulus.reliability.outbox import Outbox
from regulus.reliability.settled import Settled
from tests.unit.pipeline import postgresql


@pytest.fixture
def address(tmp_path):
    """Of a database with the stubs 1 (parked), 2 (applied) and 3 (under way)."""
    address = f"sqlite:///{tmp_path / 'shop.sqlite'}"
    engine = create_engine(address)
    with engine.begin() as connection:
        tables.create(connection)
    with engine.begin() as connection:
        for each in "123":
            connection.execute(update(tables.stubs).values(version=1))      # begins the transaction
            Outbox().add(connection, Message("orders", b"x"), message_id=each)
        connection.execute(update(tables.stubs).where(tables.stubs.c.message_id == "1").values(
            is_manual=True, send_count=16, last_error="no route"))
        connection.execute(update(tables.stubs).where(tables.stubs.c.message_id == "2").values(status="CONFIRMED"))
        connection.execute(insert(tables.attempts).values(
            message_id="2", kind="DELIVERY", consumer_group="billing", number=0, begin_time=1, end_time=2,
            outcome="APPLIED"))
    engine.dispose()
    return address


def run(address, *arguments):
    environment = {"REGULUS_DATABASE": address} if address else {}
    return CliRunner().invoke(regulus, list(arguments), env=environment)


def test_what_waits_for_a_human_is_listed(address):
    result = run(address, "outbox", "list", "--output", "json")
    assert [(row["id"], row["sends"], row["error"]) for row in json.loads(result.stdout)] == [("1", 16, "no route")]
    every = json.loads(run(address, "outbox", "list", "--all", "--output", "json").stdout)
    assert [row["id"] for row in every] == ["1", "3"]


def test_by_hand_is_written_down(address):
    result = run(address, "outbox", "void", "1", "3", "--reason", "the customer left", "--operator", "ann")
    assert (result.exit_code, result.stdout) == (0, "2 stubs voided\n")
    account = run(address, "ledger", "1")
    assert "ann: the customer left" in account.stdout
    assert "VOIDED" in account.stdout


def test_one_that_cannot_be_done_leaves_all_as_they_were(address):
    result = run(address, "outbox", "retry", "1", "2", "--reason", "again")
    assert result.exit_code == 5
    assert "stub 2 is CONFIRMED" in result.stderr
    with create_engine(address).connect() as connection:
        assert connection.execute(select(tables.stubs.c.is_manual).filter_by(message_id="1")).scalar_one()
        assert not connection.execute(select(tables.actions)).all()


def test_alarms_whose_cause_lasts_are_listed(address):
    with create_engine(address).begin() as connection:
        for each in "12":
            alarms.raise_alarm(connection, AlarmKind.MANUAL, each, "sent 16 times")
        alarms.close_alarm(connection, AlarmKind.MANUAL, "1")
    [row] = json.loads(run(address, "outbox", "alarms", "--output", "json").stdout)
    assert (row["kind"], row["subject"], row["detail"]) == ("MANUAL", "2", "sent 16 times")
    assert "MANUAL" in run(address, "outbox", "alarms").stdout


def test_what_is_done_is_removed_no_sooner_than_copies_can_come(address):
    with create_engine(address).begin() as connection:
        connection.execute(update(tables.stubs).values(create_time=1, resend_time=1))
    soon = run(address, "outbox", "purge", "--days", "3")
    assert (soon.exit_code, "a copy that comes late" in soon.stderr) == (2, True)
    assert run(address, "outbox", "purge").stdout == "removed 1 stub, 0 alarms and 0 receipts\n"
    every = json.loads(run(address, "outbox", "list", "--all", "--output", "json").stdout)
    assert [row["id"] for row in every] == ["1", "3"]


def test_an_unknown_id_is_not_found(address):
    for arguments in (["outbox", "confirm", "nosuch", "--reason", "x"], ["ledger", "nosuch"]):
        result = run(address, *arguments)
        assert (result.exit_code, "has no stub nosuch" in result.stderr) == (3, True)


def test_an_account_is_a_document(address):
    account = json.loads(run(address, "ledger", "2", "--output", "json").stdout)
    assert (account["status"], [entry["what"] for entry in account["entries"]]) == ("CONFIRMED", ["DELIVERY", "COMMIT"])


def test_the_audit_ends_with_its_verdict_and_fails_with_an_exception(address):
    result = run(address, "ledger", "audit")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "parked  1", "3 committed = 1 applied + 1 parked + 1 under way, 0 lost, 0 doubled"]
    with create_engine(address).begin() as connection:
        connection.execute(update(tables.attempts).values(outcome="DONE"))
    result = run(address, "ledger", "audit", "--output", "json")
    assert (result.exit_code, json.loads(result.stdout)["lost"]) == (1, {"count": 1, "ids": ["2"]})


def test_an_audit_says_what_it_could_not_see(address, tmp_path):
    with closing(sqlite3.connect(tmp_path / "shop.sqlite")) as other:
        other.execute("BEGIN IMMEDIATE")
        result = run(f"{address}?timeout=0", "ledger", "audit")
        told = json.loads(run(f"{address}?timeout=0", "ledger", "audit", "--output", "json").stdout)
    assert (result.exit_code, result.stderr.splitlines()) == (0, [
        "regulus: not seen: a transaction that is open: database is locked",
        ("regulus: what was not seen may have been written before this audit's end: begin the next one where this one "
         "began")])
    assert told["until"] is None
    told = json.loads(run(address, "ledger", "audit", "--output", "json").stdout)
    assert (told["unseen"], told["isHeldBack"]) == ([], False)
    assert abs(told["until"] - time.time() * 1000) < 60_000


def test_an_audit_names_the_end_that_an_open_transaction_set(address, monkeypatch):
    end = Settled(1_800_000_000_000, is_held_back=True)
    monkeypatch.setattr("regulus.reliability.ledger.settled", lambda connection, table: end)
    result = run(address, "ledger", "audit")
    assert result.stderr.startswith("regulus: a transaction has been open since 2027-01-15")
    assert result.stderr.endswith("(--since 1800000000000)\n")


def test_a_loss_that_the_consumers_own_database_may_deny_is_told_so(address, tmp_path):
    effects = f"sqlite:///{tmp_path / 'consumer.sqlite'}"
    for each in (address, effects):
        with create_engine(each).begin() as connection:
            tables.create(connection)
            connection.execute(delete(tables.attempts))
    alone = run(address, "ledger", "audit")
    assert (alone.exit_code, "lost  2" in alone.stdout) == (1, True)
    assert alone.stderr == ("regulus: proofs were looked for in this database alone; if a consumer has one of its own, "
                            "name it by --effects\n")
    both = run(address, "ledger", "audit", "--effects", effects)
    assert (both.exit_code, "lost  2" in both.stdout, both.stderr) == (1, True, "")


def test_effects_are_looked_for_in_their_own_database(address, tmp_path):
    effects = f"sqlite:///{tmp_path / 'consumer.sqlite'}"
    with create_engine(effects).begin() as connection:
        tables.create(connection)
    with create_engine(effects).begin() as connection:
        connection.execute(insert(tables.inbox).values(
            message_id="stray", consumer_group="billing", broker_name="a", queue_id=0, queue_offset=0,
            apply_time=tables.now_ms() - 60_000))
    result = run(address, "ledger", "audit", "--effects", effects)
    assert result.exit_code == 1
    assert "unmade  stray" in result.stdout


def test_tables_are_made_by_migration(tmp_path):
    (tmp_path / "new.sqlite").touch()
    address = f"sqlite:///{tmp_path / 'new.sqlite'}"
    assert run(address, "outbox", "list").exit_code == 5
    assert run(address, "outbox", "migrate").stdout == "the tables are at version 0001\n"
    assert run(address, "outbox", "list").exit_code == 0


@pytest.mark.parametrize(("address", "says"), [
    ("nonsense", "is not the address of a database"), ("nosuch://host/x", "driver that is not installed"),
    ("sqlite:////nosuch/x.sqlite", "there is no file /nosuch/x.sqlite"), ("", "Missing option '--database'")])
def test_a_wrong_address_is_one_sentence(address, says):
    result = run(address, "outbox", "list")
    assert (result.exit_code, says in result.stderr) == (2, True), result.stderr


def test_a_database_that_does_not_answer_is_told_without_its_password():
    result = run("postgresql+psycopg://ann:secret@127.0.0.1:1/shop", "outbox", "list")
    assert result.exit_code == 4
    [line] = result.stderr.splitlines()
    assert line.startswith("regulus: postgresql+psycopg://ann:***@127.0.0.1:1/shop does not answer: ")
    assert "Connection refused" in line
    assert line.endswith("; check that it runs, and that this is its address")


@pytest.mark.parametrize("arguments", [
    ("outbox", "list"), ("outbox", "status"), ("outbox", "alarms"), ("outbox", "purge"),
    ("outbox", "retry", "1", "--reason", "x"), ("ledger", "1"), ("ledger", "audit")])
def test_a_database_without_tables_is_one_line_with_the_remedy(tmp_path, arguments):
    (tmp_path / "new.sqlite").touch()
    address = f"sqlite:///{tmp_path / 'new.sqlite'}"
    result = run(address, *arguments)
    assert result.exit_code == 5
    [line] = result.stderr.splitlines()
    assert line.startswith(f"regulus: {address}: the database has no table regulus_")
    assert "; make it with `regulus outbox migrate`" in line


def test_the_text_of_an_address_becomes_what_the_driver_takes():
    with postgresql.running() as server:
        address = f"{server.replace('postgresql:', 'postgresql+psycopg:')}?connect_timeout=10&prepare_threshold="
        found = [run(address + said, "outbox", "migrate") for said in ("0", "None", "7")]
    assert [each.exit_code for each in found] == [0, 0, 0], found


@pytest.mark.parametrize("said", ["none", "-1", "", "0&prepare_threshold=0"])
def test_a_text_that_is_nothing_that_the_driver_takes_is_told(said):
    result = run(f"postgresql+psycopg://ann:secret@127.0.0.1:1/shop?prepare_threshold={said}", "outbox", "list")
    assert result.exit_code == (2 if said else 4)
    assert not said or "; give None, or how often a statement is carried out before" in result.stderr


def test_a_database_of_effects_without_tables_is_told_too(address, tmp_path):
    (tmp_path / "new.sqlite").touch()
    effects = f"sqlite:///{tmp_path / 'new.sqlite'}"
    result = run(address, "ledger", "audit", "--effects", effects)
    assert (result.exit_code, f"{effects}: the database has no table" in result.stderr) == (5, True)


@pytest.mark.parametrize(("effects", "says"), [
    ("nonsense", "--effects is not the address of a database"), ("nosuch://host/x", "--effects names a driver"),
    ("sqlite:////nosuch/x.sqlite", "--effects: there is no file /nosuch/x.sqlite")])
def test_a_wrong_address_of_effects_is_told_by_its_option(address, effects, says):
    result = run(address, "ledger", "audit", "--effects", effects)
    assert (result.exit_code, says in result.stderr) == (2, True)


@pytest.mark.parametrize("is_of_effects", [False, True])
def test_what_one_of_two_databases_says_is_told_with_its_address(address, tmp_path, is_of_effects):
    effects = f"sqlite:///{tmp_path / 'consumer.sqlite'}"
    with create_engine(effects).begin() as connection:
        tables.create(connection)
        connection.execute(insert(tables.inbox).values(
            message_id="9", consumer_group="billing", broker_name="a", queue_id=0, queue_offset=0, apply_time=1))
    guilty, table = (effects, "regulus_inbox") if is_of_effects else (address, "regulus_action")
    # Its columns are all there, and the database refuses when they are read.
    columns = ", ".join(f"abs(-9223372036854775808) AS {each.name}" for each in tables.metadata.tables[table].columns)
    with closing(sqlite3.connect(guilty.removeprefix("sqlite:///"))) as other:
        other.executescript(f"DROP TABLE {table}; CREATE VIEW {table} AS SELECT {columns}")
    result = run(address, "ledger", "audit", "--effects", effects)
    assert result.exit_code == 5
    [line] = result.stderr.splitlines()
    assert line == f"regulus: {guilty} refuses: integer overflow"


def test_how_an_outbox_fares_is_one_document(address):
    found = json.loads(run(address, "outbox", "status", "--output", "json").stdout)
    assert [found[name]["count"] for name in ("due", "waiting", "parked")] == [1, 0, 1]
    assert (found["windowMs"], found["applied"], found["openAlarms"]) == (3_600_000, 0, {})
    lines = run(address, "outbox", "status", "--minutes", "1").stdout.splitlines()
    assert [line for line in lines if line.startswith("applied in 1 minute ")] == [
        "applied in 1 minute      0, 0.0 a minute"]


def test_a_database_that_refuses_is_one_line(address, tmp_path):
    with closing(sqlite3.connect(tmp_path / "shop.sqlite")) as other:
        other.execute("BEGIN IMMEDIATE")
        result = run(f"{address}?timeout=0", "outbox", "retry", "1", "--reason", "x")
    assert result.exit_code == 5
    assert result.stderr == (f"regulus: {address}?timeout=0 refuses: database is locked; try again when the program "
                             "that writes to it is done\n")


def test_a_server_that_lets_nobody_in_is_one_line():
    with postgresql.running() as server:
        address = f"{server.replace('postgresql:', 'postgresql+psycopg:')}-nosuch"
        result = run(address, "ledger", "audit")
    assert result.exit_code == 5
    [line] = result.stderr.splitlines()
    assert line.startswith(f"regulus: {address} refuses: ")
    assert line.endswith('database "postgres-nosuch" does not exist; check the user, the password and the database in '
                         "its address")


def test_a_missing_file_is_told_with_what_makes_it(tmp_path):
    result = run(f"sqlite:///{tmp_path}/new shop.sqlite", "outbox", "migrate")
    assert result.exit_code == 2
    assert f"if it is to be a new one, first: touch '{tmp_path}/new shop.sqlite'" in result.stderr
