"""What drivers say, told alike."""

import sqlite3

import psycopg
import pymysql
import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import DBAPIError, OperationalError

from regulus.reliability.database_errors import in_one_line, is_unanswered, passing, refusal


def failure(address, statement="SELECT 1"):
    with pytest.raises(DBAPIError) as raised, create_engine(address).connect() as connection:
        connection.execute(text(statement))
    return raised.value


def wrapped(error):
    return OperationalError("SELECT 1", {}, error)


@pytest.mark.parametrize("address", ["postgresql+psycopg://ann:secret@127.0.0.1:1/shop",
                                     "mysql+pymysql://ann:secret@127.0.0.1:1/shop"])
def test_a_server_that_is_down_does_not_answer(address):
    error = failure(address)
    assert is_unanswered(error)
    assert "refused" in in_one_line(error)
    assert "\n" not in in_one_line(error)
    assert "secret" not in in_one_line(error)


def test_a_server_that_refuses_has_answered(postgresql_address):
    error = failure(f"{postgresql_address}-nosuch")
    assert not is_unanswered(error)
    assert in_one_line(error).endswith('database "postgres-nosuch" does not exist')
    assert not is_unanswered(failure(postgresql_address, "SELECT * FROM nosuch"))


@pytest.mark.parametrize("error", [
    pymysql.err.OperationalError(1045, "Access denied for user 'ann'@'localhost' (using password: YES)"),
    sqlite3.OperationalError("database is locked"),
    psycopg.OperationalError('connection failed: FATAL:  password authentication failed for user "ann"')])
def test_a_wrong_password_and_a_lock_are_answers(error):
    assert not is_unanswered(wrapped(error))


@pytest.mark.parametrize("error", [psycopg.errors.DuplicatePreparedStatement('"_pg3_0" already exists'),
                                   psycopg.errors.InvalidSqlStatementName('"_pg3_0" does not exist')])
@pytest.mark.parametrize("is_let_in", [False, True])
def test_of_what_a_pooler_makes_of_prepared_statements_no_password_is_blamed(error, is_let_in):
    engine = create_engine("postgresql+psycopg://ann:secret@127.0.0.1:1/shop")
    said = str(refusal(engine, wrapped(error), is_let_in=is_let_in))
    assert "as behind a pooler in transaction mode: add ?prepare_threshold=None to the address" in said
    assert "password" not in said


def test_a_connection_that_was_lost_is_no_answer():
    assert is_unanswered(OperationalError("SELECT 1", {}, sqlite3.OperationalError(), connection_invalidated=True))


@pytest.mark.parametrize("is_wrapped", [True, False])
@pytest.mark.parametrize("error", [
    psycopg.OperationalError("the server closed\nthe connection"), psycopg.errors.AdminShutdown("going down"),
    pymysql.err.OperationalError(2003, "no")])
def test_what_passes_by_itself_is_a_line(error, is_wrapped):
    assert passing(wrapped(error) if is_wrapped else error) == f"the database says: {in_one_line(error)}"


def test_a_fault_of_the_program_has_its_traceback(postgresql_address):
    assert passing(failure("sqlite://", "SELECT * FROM nosuch")) is None
    assert passing(failure(postgresql_address, "SELECT * FROM nosuch")) is None
    assert passing(KeyError("x")) is None


def test_a_lock_of_sqlite_passes(tmp_path):
    address = f"sqlite:///{tmp_path / 'shop.sqlite'}?timeout=0"
    with create_engine(address).connect() as connection:
        connection.execute(text("BEGIN EXCLUSIVE"))
        assert passing(failure(address, "CREATE TABLE a(b)")) == "the database says: database is locked"
