"""The channels by which people are notified: mail, a webhook, and the log. Blocking; each raises AlarmUndelivered.

Several alarms are sent as one digest, which lists some of them and counts the others.
"""

import json
import logging
import smtplib
import ssl
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import formatdate, make_msgid
from enum import StrEnum
from http.client import HTTPException
from typing import Protocol
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from regulus.errors import AlarmUndelivered, ConfigError
from regulus.reliability.alarms import Alarm

_log = logging.getLogger(__name__)

LINES_MAX = 50
"""The maximum number of alarms that a digest lists."""


class Digest:
    """At least one alarm, oldest first."""

    def __init__(self, alarms: Sequence[Alarm]) -> None:
        self.named = alarms[:LINES_MAX]
        self.more = len(alarms) - len(self.named)
        kinds = Counter(alarm.kind for alarm in alarms)
        self.title = f"{len(alarms)} alarm{'s' * (len(alarms) > 1)} of the outbox: " + ", ".join(
            f"{count} {kind}" for kind, count in sorted(kinds.items()))

    @property
    def lines(self) -> list[str]:
        return [_line(alarm) for alarm in self.named] + ([f"and {self.more} more"] if self.more else [])


class Channel(Protocol):
    @property
    def name(self) -> str: ...

    def send(self, digest: Digest) -> None:
        """Deliver a digest. Raises AlarmUndelivered."""
        ...


class LogChannel:
    name = "log"

    def send(self, digest: Digest) -> None:
        """Log one line for each alarm, at level ERROR."""
        for line in digest.lines:
            _log.error("%s", line)


class MailSecurity(StrEnum):
    """How the connection to the mail server is secured; certificates are always checked."""

    NONE = "NONE"
    STARTTLS = "STARTTLS"   # port 587
    TLS = "TLS"             # port 465


@dataclass(frozen=True, slots=True, kw_only=True)
class MailChannel:
    """Delivery by SMTP, one mail for each digest. `context` is for a server whose certificate is not from a public
    authority."""

    host: str
    sender: str
    recipients: Sequence[str]
    port: int = 587
    security: MailSecurity = MailSecurity.STARTTLS
    user: str = ""
    password: str = field(default="", repr=False)
    timeout_ms: int = 10_000            # for each answer
    context: ssl.SSLContext | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        _check_timeout(self.timeout_ms)
        if isinstance(self.recipients, str) or not self.recipients:
            raise ConfigError("recipients is empty or one text; give a list of addresses")
        for address in (self.sender, *self.recipients):
            if "@" not in address or any(char.isspace() for char in address):
                raise ConfigError(f"{address!r} is not an address of a mail; write name@host")
        if self.user and self.security is MailSecurity.NONE:
            raise ConfigError("a password would travel readable; choose security STARTTLS or TLS, or give no user")

    @property
    def name(self) -> str:
        return f"mail by {self.host}:{self.port}"

    def send(self, digest: Digest) -> None:
        """Send a mail. A recipient that the server refuses is logged; the others do not get the mail again because of
        it."""
        try:
            context = self.context or ssl.create_default_context()
            with self._connection(context) as server:
                if self.security is MailSecurity.STARTTLS:
                    server.starttls(context=context)
                if self.user:
                    server.login(self.user, self.password)
                refused = server.send_message(self._mail(digest), self.sender, list(self.recipients))
        except (OSError, smtplib.SMTPException) as error:       # the former includes TLS and network errors
            raise AlarmUndelivered(f"{self.name} failed ({type(error).__name__}: {error}); look at host, port, "
                                   "security, user and recipients") from error
        for address, (code, answer) in refused.items():
            _log.error("the mail server %s refuses %s: %s %s", self.host, address, code,
                       answer.decode(errors="replace"))

    def _connection(self, context: ssl.SSLContext) -> smtplib.SMTP:
        timeout = self.timeout_ms / 1000
        if self.security is MailSecurity.TLS:
            return smtplib.SMTP_SSL(self.host, self.port, timeout=timeout, context=context)
        return smtplib.SMTP(self.host, self.port, timeout=timeout)

    def _mail(self, digest: Digest) -> EmailMessage:
        mail = EmailMessage()
        mail["From"] = self.sender
        mail["To"] = ", ".join(self.recipients)
        mail["Subject"] = digest.title
        mail["Date"] = formatdate()
        mail["Message-ID"] = make_msgid(domain=self.sender.rpartition("@")[2])
        mail.set_content("\n".join(digest.lines) + "\n")
        return mail


class _NoRedirects(HTTPRedirectHandler):
    """Raises on a redirect: a redirected POST would become a GET, which succeeds and notifies no person."""

    def redirect_request(self, *_: object) -> None:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookChannel:
    """Delivery by a POST of JSON: `text`, as chats show it; `alarms`, each with kind, subject, detail, raise_time and
    closed_time; and `more`, the number of further alarms."""

    url: str = field(repr=False)        # often a secret itself
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout_ms: int = 10_000

    def __post_init__(self) -> None:
        _check_timeout(self.timeout_ms)
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError("the webhook's url is not an address of the web; write https://host/path")
        # Checked at the start, and without showing the text, which is often a secret: http.client would show it in its
        # error.
        if not _is_plain(self.url) or " " in self.url:
            raise ConfigError("the webhook's url has blanks, ends of lines or letters that are not ASCII; write %20 "
                              "and the like")
        if not all(_is_plain(name) and _is_plain(value) for name, value in self.headers.items()):
            raise ConfigError("one of the webhook's headers has ends of lines or letters that are not ASCII; was it "
                              "read from a file with the end of its line?")

    @property
    def name(self) -> str:
        return f"webhook at {urlsplit(self.url).hostname}"

    def send(self, digest: Digest) -> None:
        body = {"text": "\n".join([digest.title, *digest.lines]),
                "alarms": [{"kind": alarm.kind, "subject": alarm.subject, "detail": alarm.detail,
                            "raise_time": alarm.raise_time, "closed_time": alarm.closed_time}
                           for alarm in digest.named],
                "more": digest.more}
        request = Request(self.url, json.dumps(body).encode(), {"Content-Type": "application/json", **self.headers},
                          method="POST")
        try:
            with build_opener(_NoRedirects).open(request, timeout=self.timeout_ms / 1000):
                pass
        except HTTPError as error:
            error.close()
            raise AlarmUndelivered(f"{self.name} answers {error.code}; look at its url and headers") from error
        except (OSError, HTTPException) as error:
            raise AlarmUndelivered(f"{self.name} failed ({type(error).__name__}: {error}); look at its url") from error


def _line(alarm: Alarm) -> str:
    when = datetime.fromtimestamp(alarm.raise_time / 1000, UTC).isoformat(sep=" ", timespec="seconds")
    over = "" if alarm.closed_time is None else " (over)"
    return f"{when} {alarm.kind} {_in_one_line(alarm.subject)}: {_in_one_line(alarm.detail)}{over}"


def _in_one_line(text: str) -> str:
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isprintable()


def _check_timeout(timeout_ms: int) -> None:
    if not 1 <= timeout_ms <= 60_000:
        raise ConfigError(f"timeout_ms is {timeout_ms}; it must be 1 to 60000")
