"""The command line as a process: what it says, and what it tells the shell."""

import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager

import pytest

from regulus.cli.exit_codes import ExitCode, exit_code
from regulus.cli.main import main
from regulus.errors import (
    BrokerRefused,
    ClientClosed,
    ConfigError,
    ConnectFailed,
    JobRefused,
    MessageIllegal,
    MissingExtra,
    NoNameServer,
    NoRoute,
    StoreDamaged,
    TopicMissing,
)

REGULUS = [sys.executable, "-m", "regulus.cli.main"]


def run(*arguments, **options):
    return subprocess.run([*REGULUS, *arguments], capture_output=True, text=True, timeout=60, check=False, **options)


@pytest.mark.parametrize(("error", "code"), [
    (ConfigError("x"), ExitCode.USAGE),
    (NoRoute("x"), ExitCode.NOT_FOUND),
    (BrokerRefused(17, "no such topic"), ExitCode.NOT_FOUND),
    (ConnectFailed("x"), ExitCode.NOT_REACHABLE),
    (NoNameServer("x"), ExitCode.NOT_REACHABLE),
    (BrokerRefused(16, "no permission"), ExitCode.REFUSED),
    (JobRefused("x"), ExitCode.REFUSED),
    (TopicMissing("x"), ExitCode.NOT_FOUND),
    (MessageIllegal("x"), ExitCode.USAGE),
    (ClientClosed("x"), ExitCode.FAILED),
    (MissingExtra("x"), ExitCode.FAILED),
    (StoreDamaged("x"), ExitCode.FAILED),
])
def test_the_shell_is_told_who_is_at_fault(error, code):
    assert exit_code(error) is code


def on_a_terminal(*arguments, **environment):
    terminal, its_end = os.openpty()
    done = subprocess.run([*REGULUS, *arguments], stdout=its_end, timeout=60, check=False,
                          env={**os.environ, "NO_COLOR": "", **environment})
    os.close(its_end)
    assert done.returncode == 0
    with os.fdopen(terminal, "rb") as output:
        return output.read1().decode()


def test_help_has_colours_on_a_terminal_alone_and_where_they_are_wanted():
    coloured = on_a_terminal("--help")
    assert "\x1b[36mtopic\x1b[0m" in coloured
    assert "\x1b[1mCommands" in coloured
    assert "\x1b" not in on_a_terminal("--help", NO_COLOR="1")
    assert "\x1b" not in run("--help").stdout


def test_a_wrong_word_is_a_fault_of_usage():
    done = run("topic", "nosuch")
    assert done.returncode == ExitCode.USAGE
    assert "No such command" in done.stderr


def test_nobody_at_the_other_end_is_one_line(unused_tcp_port):
    done = run("topic", "list", "-n", f"127.0.0.1:{unused_tcp_port}")
    assert done.returncode == ExitCode.NOT_REACHABLE
    assert done.stderr.startswith("regulus: ")
    assert done.stderr.count("\n") == 1


def test_what_is_not_there_is_told_apart_from_what_is_empty(regulus_server):
    for arguments in (("topic", "delete", "nosuch", "--yes"), ("group", "progress", "nosuch"),
                      ("group", "delete", "nosuch", "--yes"), ("group", "members", "nosuch"),
                      ("message", "view", "abc"), ("topic", "status", "nosuch")):
        done = run(*arguments, "-n", regulus_server.name_server_address)
        assert (done.returncode, done.stdout) == (ExitCode.NOT_FOUND, ""), arguments
        assert done.stderr.count("\n") == 1


def test_an_id_that_is_none_is_explained(regulus_server):
    done = run("message", "view", "abc", "-n", regulus_server.name_server_address)
    assert "'abc' is not an offset message id: one has 32 or 56 hexadecimal digits" in done.stderr
    assert "name its topic" in done.stderr


@pytest.mark.parametrize("arguments", [
    ("message", "send", "Or ders", "one"), ("message", "send", "Orders", ""),
    ("message", "query", "Orders", "--offset", "3", "--queue", "broker-a/x"),
    ("message", "query", "Orders", "--offset", "3", "--queue", f"broker-a/{1 << 40}"),
    ("topic", "list", "-n", "nowhere"), ("topic", "list", "-n", ""), ("cluster", "status", "nowhere"),
    ("topic", "create", "New", "--broker", "nowhere"),
])
def test_arguments_that_cannot_be_meant_are_a_fault_of_usage(orders, arguments):
    done = run(*arguments, env={**os.environ, "NAMESRV_ADDR": orders.name_server_address})
    assert (done.returncode, done.stdout) == (ExitCode.USAGE, ""), done.stderr
    assert "Traceback" not in done.stderr


def test_places_that_are_not_there_are_not_found(orders):
    assert run("group", "create", "billing", "-n", orders.name_server_address).returncode == 0
    for arguments in (("topic", "create", "New", "--cluster", "nosuch"),
                      ("message", "query", "Orders", "--offset", "3", "--queue", "nosuch/0"),
                      ("message", "send", "Orders", "one", "--queue", "nosuch/0"),
                      ("group", "reset", "billing", "Orders", "--offset", "3", "--queue", "broker-a/77"),
                      ("group", "progress", "billing", "--topic", "nosuch")):
        done = run(*arguments, "-n", orders.name_server_address)
        assert (done.returncode, done.stdout) == (ExitCode.NOT_FOUND, ""), (arguments, done.stderr)
        assert done.stderr.count("\n") == 1


def test_a_place_without_a_message_is_told_in_plain_words(orders):
    done = run("message", "query", "Orders", "--offset", "7000", "--queue", "broker-a/0", "-n",
               orders.name_server_address)
    assert done.returncode == ExitCode.NOT_FOUND
    assert re.fullmatch(r"regulus: no message at offset 7000 of queue 0 of Orders on broker-a, which has 0 to \d+\n",
                        done.stderr)


@pytest.mark.parametrize("answer", ["n\n", ""])
def test_a_question_without_a_yes_is_a_failure(orders, answer):
    done = run("topic", "delete", "Orders", "-n", orders.name_server_address, input=answer)
    assert done.returncode == ExitCode.FAILED
    assert done.stderr.strip() == "regulus: aborted, nothing was done"
    assert "Orders" in run("topic", "list", "-n", orders.name_server_address).stdout


def test_an_interrupt_at_a_question_is_an_interrupt(monkeypatch):
    def interrupted(prompt):
        raise KeyboardInterrupt

    monkeypatch.setattr("click.termui.visible_prompt_func", interrupted)
    with pytest.raises(SystemExit) as ended:
        main(["group", "delete", "g"])
    assert ended.value.code == ExitCode.INTERRUPTED


def test_a_disk_that_takes_no_output_is_one_line(regulus_server):
    with open("/dev/full", "wb") as full:
        done = subprocess.run([*REGULUS, "--help"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60,
                              check=False)
    assert done.returncode == ExitCode.FAILED
    assert done.stderr == "regulus: [Errno 28] No space left on device\n"


@contextmanager
def tail(regulus_server, **options):
    command = [*REGULUS, "topic", "tail", "Orders", "--from-beginning", "-n", regulus_server.name_server_address]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, **options) as process:
        try:
            yield process
        finally:
            process.kill()      # where it should have ended and did not


@pytest.fixture
def orders(regulus_server):
    server = ["-n", regulus_server.name_server_address]
    assert run("topic", "create", "Orders", *server).returncode == 0
    assert run("message", "send", "Orders", "one", "-c", "50", *server).returncode == 0
    return regulus_server


def test_a_tail_ends_quietly_when_its_reader_goes_though_nothing_more_comes(orders):
    reads, writes = os.pipe()
    with tail(orders, stdout=writes) as process:
        os.close(writes)
        shown = b""
        while shown.count(b"\n") < 50:
            shown += os.read(reads, 4096)
        os.close(reads)
        assert process.wait(60) == ExitCode.NO_READER
        assert process.stderr.read() == ""


def test_a_tail_ends_quietly_at_an_interrupt(orders):
    with tail(orders, stdout=subprocess.PIPE) as process:
        assert "one" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == ExitCode.INTERRUPTED
        assert process.stderr.read().strip() == ""


def test_commands_are_completed_without_the_packages_they_need(tmp_path):
    (tmp_path / "pyspark.py").write_text("raise ImportError('not installed')")
    paths = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = run(env={**os.environ, "PYTHONPATH": paths, "_REGULUS_COMPLETE": "bash_complete", "COMP_WORDS": "regulus ",
                    "COMP_CWORD": "1"})
    assert done.returncode == 0
    assert "plain,demo" in done.stdout
    assert done.stderr == ""


def test_a_port_that_another_has_is_named_with_what_to_do():
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        done = run("nameserver", "--listen", "127.0.0.1", "--port", str(port))
    assert done.returncode == 1
    assert f"127.0.0.1:{port}: Address already in use; end what listens there, or choose another port" in done.stderr
