"""What options take."""

import pytest
from click.testing import CliRunner

from regulus.cli.archive import archive
from regulus.cli.bench import bench
from regulus.cli.broker import broker
from regulus.cli.demo.command import demo
from regulus.cli.exit_codes import ExitCode
from regulus.cli.group import group
from regulus.cli.index import index
from regulus.cli.job import job
from regulus.cli.message import message
from regulus.cli.nameserver import nameserver
from regulus.cli.pipeline import pipeline
from regulus.cli.proxy import proxy
from regulus.cli.spark import spark
from regulus.cli.topic import topic
from regulus.cli.up import up

BEYOND = str(1 << 63)


@pytest.mark.parametrize(("command", "host"), [
    (up, "127.0.0.1"), (broker, "0.0.0.0"), (nameserver, "0.0.0.0"), (proxy, "0.0.0.0")])
def test_help_says_who_reaches_a_server_unless_it_is_told_otherwise(command, host):
    (listen,) = [option for option in command.params if option.name == "bind_address"]
    assert listen.help == f"Address to listen at; 0.0.0.0 is all of this machine's [{host}]."


@pytest.mark.parametrize(("command", "arguments", "option"), [
    (group, ["reset", "g", "t", "--queue", "b/0"], "--offset"),
    (group, ["create", "g"], "--retry-max-times"),
    (message, ["query", "t", "--queue", "b/0"], "--offset"),
    (message, ["query", "t", "--key", "k"], "--limit"),
    (message, ["send", "t", "body"], "--count"),
    (topic, ["tail", "t"], "--count"),
    (bench, ["producer"], "--count"),
    (bench, ["consumer"], "--count"),
    (up, [], "--port"),
    (up, [], "--namesrv-port"),
    (broker, [], "--port"),
    (nameserver, [], "--port"),
    (demo, [], "--port"),
    (demo, [], "--namesrv-port"),
    (job, ["search"], "--limit"),
    (job, ["search"], "--cores"),
    (job, ["audit", "--topic", "t"], "--late-ms"),
    (job, ["redrive", "--group", "g"], "--cap"),
    (job, ["redrive", "--group", "g"], "--rate"),
    (job, ["trace"], "--slow-ms"),
    (job, ["reconcile", "--topic", "t", "--stubs", "table:s"], "--late-ms"),
    (spark, ["read", "--topic", "t"], "--limit"),
    (spark, ["read", "--topic", "t"], "--cores"),
    (archive, ["compact", "--archive", "a"], "--keep-superseded"),
    (archive, ["compact", "--archive", "a"], "--expire-after"),
    (archive, ["compact", "--archive", "a"], "--cores"),
    (index, ["rebuild", "--store", ".", "--output", "o"], "--hash-slots"),
    (index, ["rebuild", "--store", ".", "--output", "o"], "--index-entries"),
    (index, ["rebuild", "--store", ".", "--output", "o"], "--cores"),
    (pipeline, ["run"], "--cores"),
])
@pytest.mark.parametrize("number", [BEYOND, "-1"])
def test_numbers_that_mean_nothing_are_a_fault_of_usage(command, arguments, option, number):
    done = CliRunner().invoke(command, [*arguments, option, number])
    assert done.exit_code == ExitCode.USAGE
    assert "Invalid value for" in done.output
    assert option in done.output
    assert f"{number} is not in the range" in done.output


@pytest.mark.parametrize(("command", "arguments"), [
    (bench, ["consumer", "--idle"]),
    (job, ["replay", "--topic", "t", "--from", "2d", "--until", "1d", "--speed"]),
])
@pytest.mark.parametrize("number", ["nan", "inf", "-1"])
def test_a_number_that_is_none_is_a_fault_of_usage(command, arguments, number):
    done = CliRunner().invoke(command, [*arguments, number])
    assert done.exit_code == ExitCode.USAGE
    assert f"{number if number != '-1' else '-1.0'} is not in the range" in done.output
