"""What the server commands have in common: they run until a signal, and print one line when they are ready."""

import asyncio
import gc
import logging
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from errno import EADDRINUSE
from ipaddress import ip_address
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click

from regulus.broker.config import BrokerConfig
from regulus.cli.config_file import LoadedConfigs, apply, read_values
from regulus.cli.interrupts import end_at_an_interrupt
from regulus.cli.options import LocalPath
from regulus.errors import ConfigError, RegulusError
from regulus.nameserver.config import NamesrvConfig
from regulus.proxy.config import ProxyConfig
from regulus.server import logging_setup
from regulus.store.config import MessageStoreConfig
from regulus.transport import event_loop
from regulus.wire.config_text import field_name

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_log = logging.getLogger(__name__)

# A request leaves no cycles behind; the usual threshold of 700 would look for them several times in each batch.
_COLLECT_AFTER_ALLOCATIONS = 50_000
# The disk threads need the interpreter only for microseconds, but many times in a row. With the usual 5 ms, a busy
# event loop would delay each flush and each preparation of space for the writer by tens of ms.
_SWITCH_INTERVAL_S = 0.0005


_TAKEN_BY: "dict[str, tuple[type[DataclassInstance], ...]]" = {
    "regulus broker": (BrokerConfig, MessageStoreConfig), "regulus nameserver": (NamesrvConfig,),
    "regulus proxy": (ProxyConfig,)}

Command = TypeVar("Command", bound=Callable[..., Any])


class Server(Protocol):
    async def start(self) -> None: ...

    async def stop(self) -> None: ...


config_option = click.option("-c", "--config", "config_path", type=LocalPath(dir_okay=False),
                             help="RocketMQ .conf (key=value) or TOML file.")
def store_options(command: Command) -> Command:
    """Add the options of a broker's store to a command; `store_values` takes their values."""
    for option in (
            click.option("--take-what-is-readable", is_flag=True, help="Open a store that RocketMQ 5.5 kept partly in "
                         "RocksDB without those parts; the log counts what is left out."),
            click.option("--cut-damaged-log", metavar="POSITION", help="Cut the log at this damage, which a refused "
                         "start has named, and continue; what is cut is kept aside."),
            click.option("--flush", type=click.Choice(["sync", "async"]),
                         help="sync: a send is answered when it is on disk; async: at once [async]."),
            click.option("--store", "store_path", metavar="DIR", help="Directory of the messages [~/store].")):
        command = option(command)
    return command


def store_values(*, store_path: str | None, flush: str | None, cut_damaged_log: str | None,
                 take_what_is_readable: bool) -> dict[str, str | None]:
    return {"storePathRootDir": store_path, "flushDiskType": None if flush is None else f"{flush.upper()}_FLUSH",
            "cutDamagedLog": cut_damaged_log, "takeWhatIsReadable": "true" if take_what_is_readable else None}


def log_options(command: Command) -> Command:
    command = click.option("--log-format", default="text", show_default=True,
                           type=click.Choice(logging_setup.FORMATS),
                           help="How each line of the log is written; json: one object a line.")(command)
    return click.option("--log-level", default="info", show_default=True,
                        type=click.Choice([level.lower() for level in logging_setup.LEVELS]))(command)


def listen_option(default: str) -> Callable[[Command], Command]:
    return click.option("--listen", "bind_address", metavar="HOST",
                        help=f"Address to listen at; 0.0.0.0 is all of this machine's [{default}].")


def load_configs(config_path: Path | None, options: dict[str, str | None], *defaults: "DataclassInstance",
                 idle: Mapping[str, str] = MappingProxyType({})) -> LoadedConfigs:
    """The defaults, changed by the file, and then by the given options (keys in RocketMQ's spelling).

    The keys of a file that `tls.config.file` names count before those of the file that names it. `idle`: fields that
    have no effect on this command, with the command on which they have; the warning names their keys.
    """
    values = read_values(config_path) if config_path is not None else {}
    if tls_path := values.pop("tls.config.file", ""):
        values = read_values(Path(tls_path)) | values
    given = {key: text for key, text in options.items() if text is not None}
    try:
        loaded = apply({**values, **given}, *defaults, others=_TAKEN_BY)
    except ConfigError as error:
        raise ConfigError(f"{config_path}: {error}" if config_path is not None else str(error)) from error
    elsewhere = {command: list(keys) for command, keys in loaded.elsewhere.items()}
    for key in values:
        if command := idle.get(field_name(key)):
            elsewhere.setdefault(command, []).append(key)
    return replace(loaded, elsewhere=elsewhere)


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect to the address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def guarded(host: str, guard: str) -> str | None:
    """The warning for a server with access control by the setting `guard`; None without it."""
    if not guard:
        return None
    link = "" if is_loopback(host) else "; without TLS, anyone on the way can read them"
    signer = "an account" if guard == "aclEnable" else "a user"
    return f"requests must be signed by {signer} ({guard}){link}"


def open_warning(host: str, guard: str = "") -> str | None:
    """The warning for a server at this address; None when only this machine can connect to it."""
    if is_loopback(host):
        return None
    if guard:
        return guarded(host, guard)
    return (f"anyone who can connect to {host} may read, send, delete and administrate, because nothing guards this "
            "server: keep it behind a firewall, or use --listen 127.0.0.1")


def run_server(make_server: Callable[[], Server], ready_line: Callable[[Any], str], log_level: str,
               log_format: str, *warnings: str | None) -> None:
    """Start, print the ready line, serve until one of `stop_signals`, and stop. A start that the operating system
    refuses ends with one line."""
    end_at_an_interrupt()       # until there is an event loop that handles it
    logging_setup.set_up(log_level, log_format)
    for warning in filter(None, warnings):
        _log.warning("%s", warning)
    event_loop.run(_serve(make_server, ready_line))


async def _serve(make_server: Callable[[], Server], ready_line: Callable[[Any], str]) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in stop_signals():
        loop.add_signal_handler(number, stopping.set)
    server = make_server()
    try:
        await server.start()
    except OSError as error:
        remedy = "; end what listens there, or choose another port" if error.errno == EADDRINUSE else ""
        raise RegulusError(f"cannot start: {error.strerror or error}{remedy}") from error
    click.echo(ready_line(server))
    tune_interpreter()
    await stopping.wait()
    await server.stop()


def stop_signals() -> list[signal.Signals]:
    """The signals that stop a server. A closing terminal sends SIGHUP, which `nohup` makes us ignore."""
    hang_ups = [] if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else [signal.SIGHUP]
    return [signal.SIGTERM, signal.SIGINT, *hang_ups]


def tune_interpreter() -> None:
    """Set up the interpreter for a server that is ready. Objects that exist now live as long as the server, so the
    garbage collector need not check them again."""
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER_ALLOCATIONS)
