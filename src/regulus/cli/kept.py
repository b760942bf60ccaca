"""`regulus message kept`: shows and sends the sends that failed for good, from the file of a producer."""

from collections.abc import Callable
from contextlib import closing
from functools import wraps
from pathlib import Path
from typing import Any

import click

from regulus.cli.connection import Server, with_server
from regulus.cli.options import LIMIT, LocalPath
from regulus.cli.output import print_rows, with_output
from regulus.client.config import ProducerConfig
from regulus.client.connecting.client_instance import now_ms
from regulus.client.sending.kept_file import KeptFile, KeptStatus
from regulus.client.sending.kept_sends import KeptSends
from regulus.client.sending.producer import Producer
from regulus.errors import ClientError
from regulus.model.wording import counted, time_text
from regulus.transport import event_loop
from regulus.wire.codes import ResponseCode

_GROUP = "regulus_cli"


@click.group()
def kept() -> None:
    """See and send the sends that failed for good, in the FILE where a producer keeps them."""


def _of_file(command: Callable[..., Any]) -> Callable[..., Any]:
    @click.argument("path", metavar="FILE", type=LocalPath(exists=True, dir_okay=False))
    @wraps(command)
    def call(*args: Any, **kwargs: Any) -> Any:
        return command(*args, **kwargs)
    return call


@kept.command("list")
@_of_file
@click.option("--given-up", is_flag=True, help="Only sends that are not tried again.")
@click.option("--limit", type=LIMIT, default=100, show_default=True, help="At most this many, the oldest first.")
@with_output
def list_sends(path: Path, given_up: bool, limit: int, json_output: bool) -> None:
    """List kept sends, oldest first."""
    with closing(KeptFile(path)) as file:
        sends, status = file.sends(limit, only_given_up=given_up), file.status()
    times: Any = (lambda ms: ms) if json_output else time_text
    print_rows(("id", "topic", "unique_key", "messages", "bytes", "kept", "attempts", "given_up", "error"),
               [(send.send_id, send.topic, send.message_id, send.message_count, send.size, times(send.kept_time),
                 send.attempts, send.is_given_up, send.last_error) for send in sends], json_output=json_output)
    click.echo(_in_words(status), err=True)


@kept.command()
@_of_file
@click.argument("send_ids", metavar="[ID]...", nargs=-1, type=int)
@with_server
def resend(server: Server, path: Path, send_ids: tuple[int, ...]) -> None:
    """Send waiting sends now, and given-up sends as if they were new: those with an ID, or all.

    If another process has the claim on the file, that process sends them.
    """
    with closing(KeptFile(path)) as file:
        if file.begin_anew(now_ms(), send_ids or None) < len(send_ids):
            raise ClientError(f"not all of these ids are given-up sends of {path}: see `regulus message kept list`",
                              ResponseCode.NO_MESSAGE)
        before = file.status()
    click.echo(event_loop.run(_send(server, path, before)))


@kept.command()
@_of_file
@click.argument("send_ids", metavar="ID...", nargs=-1, type=int, required=True)
def drop(path: Path, send_ids: tuple[int, ...]) -> None:
    """Drop sends: their messages are lost, unless they are stored already."""
    with closing(KeptFile(path)) as file:
        dropped = file.remove(send_ids)
    click.echo(f"{counted(dropped, 'send')} dropped")
    if dropped < len(set(send_ids)):
        raise ClientError(f"the other ids are not in {path}, or were sent meanwhile", ResponseCode.NO_MESSAGE)


async def _send(server: Server, path: Path, before: KeptStatus) -> str:
    sends = KeptSends(path, tells=False)
    config = ProducerConfig(access_key=server.access_key, secret_key=server.secret_key, tls=server.tls)
    async with Producer(server.name_server, _GROUP, config, on_send_failed=sends):
        status = await sends.send_now()
    if status is None:
        return f"the process that has {path} sends what waits: {_in_words(before)}"
    if status.waiting or status.given_up > before.given_up:
        with closing(KeptFile(path)) as file:
            [oldest] = file.sends(1)
        raise ClientError(f"not all could be sent: {_in_words(status)}; the oldest: {oldest.last_error}")
    return f"{counted(before.waiting, 'send')} sent"


def _in_words(status: KeptStatus) -> str:
    age = f", the oldest since {time_text(status.oldest_time)}" if status.waiting else ""
    return (f"{counted(status.waiting, 'send waits', 'sends wait')}{age}; {status.given_up} given up; "
            f"{status.size} bytes of messages")
