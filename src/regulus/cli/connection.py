"""What the client commands have in common: where the name server is, and how times are written."""

import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec

import click

from regulus.cli.config_file import load
from regulus.cli.options import LocalPath
from regulus.client.administration.admin import Admin
from regulus.client.config import ClientConfig
from regulus.errors import ConfigError
from regulus.model.timestamps import may_be_ms
from regulus.transport import event_loop
from regulus.transport.connector import split_address
from regulus.transport.tls import PLAIN, TlsConfig

P = ParamSpec("P")

DEFAULT_NAME_SERVER = "127.0.0.1:9876"
_SECRET_LENGTH_MAX = 1024


class Server:
    """Where to connect, and as whom."""

    def __init__(self, name_server: str, access_key: str, secret_key: str, tls: TlsConfig) -> None:
        self.name_server = name_server
        self.access_key = access_key
        self.secret_key = secret_key
        self.tls = tls

    def client_config(self) -> ClientConfig:
        return ClientConfig(access_key=self.access_key, secret_key=self.secret_key, tls=self.tls)


tls_option = click.option("--tls-config", "tls_path", envvar="REGULUS_TLS_CONFIG", show_envvar=True,
                          type=LocalPath(dir_okay=False),
                          help="Speak TLS, by the tls.client.* keys of this file (docs/tls.md).")


def tls_of(path: Path | None) -> TlsConfig:
    """The file is RocketMQ's tls.properties. Raises ConfigError that names file and key."""
    if path is None:
        return PLAIN
    config: TlsConfig = load(path, TlsConfig()).configs[0]
    return replace(config, tls_enable=True)


def with_server(command: Callable[Concatenate[Server, P], Any]) -> Callable[..., None]:
    """Give a command the connection options; it gets them as a Server, first."""
    @click.option("-n", "--namesrv", "name_server", default=DEFAULT_NAME_SERVER, show_default=True,
                  envvar="NAMESRV_ADDR", show_envvar=True, help="Name servers, host:port;host:port.")
    @click.option("--access-key", default="", envvar="REGULUS_ACCESS_KEY", show_envvar=True,
                  help="Sign requests as this user.")
    @click.option("--secret-key", default="", envvar="REGULUS_SECRET_KEY", show_envvar=True,
                  help="The user's secret. As an option others on this machine see it: better in the environment.")
    @click.option("--secret-key-file", type=LocalPath(dir_okay=False),
                  envvar="REGULUS_SECRET_KEY_FILE", show_envvar=True, help="A file whose first line is the secret.")
    @tls_option
    @wraps(command)
    def call(*args: Any, name_server: str, access_key: str, secret_key: str, secret_key_file: Path | None,
             tls_path: Path | None, **kwargs: Any) -> None:
        if secret_key_file is not None:
            if secret_key:
                raise click.UsageError("--secret-key and --secret-key-file give the secret twice: leave one out")
            secret_key = _first_line(secret_key_file)
        if bool(access_key) != bool(secret_key):
            raise click.UsageError("--access-key and --secret-key belong together: give both or none")
        command(Server(name_server, access_key, secret_key, tls_of(tls_path)), *args, **kwargs)
    return call


def _first_line(path: Path) -> str:
    """Raises ConfigError."""
    try:
        with path.open(encoding="utf-8") as file:
            return file.readline(_SECRET_LENGTH_MAX).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"no secret can be read from {path}: {error}") from error


def with_admin(command: Callable[Concatenate[Admin, P], Awaitable[None]]) -> Callable[..., None]:
    """Give a command the connection options and run it with an Admin, first."""
    @with_server
    @wraps(command)
    def call(server: Server, *args: Any, **kwargs: Any) -> None:
        async def run() -> None:
            async with Admin(server.name_server, server.client_config()) as admin:
                await command(admin, *args, **kwargs)
        event_loop.run(run())
    return call


class Address(click.ParamType[str]):
    """Where a server is, as host:port."""

    name = "address"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            split_address(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return str(value)


_NUMBER = re.compile(r"-?[0-9]{1,30}")
_LAST_MS = 253_402_214_400_000
"""The last day that a date can be, in whatever zone."""
_UNIT_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class Moment(click.ParamType[int]):
    """A time as ms since 1970: ms, ISO 8601, or an age such as 30m, 2h, 1d."""

    name = "time"
    forms = "ms since 1970, 2026-01-31T12:00:00, or an age such as 30m"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value).strip()
        try:
            moment = _milliseconds(text)
        except (ValueError, OverflowError):
            self.fail(f"{text!r} is not a time; write {self.forms}", param, ctx)
        if not 0 <= moment <= _LAST_MS:
            self.fail(f"{text!r} is not a time between the years 1970 and 9999", param, ctx)
        if _NUMBER.fullmatch(text) and not may_be_ms(moment):
            self.fail(f"{text!r} as ms since 1970 is before the year 2000; write ms, not seconds, or "
                      "2026-01-31T12:00:00", param, ctx)
        return moment


class ComingMoment(Moment):
    """A time that is still to come, as a rule: an age, which would be none, is refused."""

    forms = "2027-01-31T09:00 or ms since 1970, or how long to wait with --delay"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value).strip()
        if text[-1:] in _UNIT_MS and _NUMBER.fullmatch(text[:-1]):
            self.fail(f"{text!r} says how long and not when: write 2027-01-31T09:00 or ms since 1970 here, or "
                      f"--delay {text.lstrip('-')}", param, ctx)
        return super().convert(value, param, ctx)


def _milliseconds(text: str) -> int:
    """Raises ValueError, OverflowError."""
    if _NUMBER.fullmatch(text):
        return int(text)
    if text[-1:] in _UNIT_MS and _NUMBER.fullmatch(text[:-1]):
        return int(datetime.now().timestamp() * 1000) - int(text[:-1]) * _UNIT_MS[text[-1]]
    return int(datetime.fromisoformat(text).timestamp() * 1000)
