"""Mail by a real SMTP server, a webhook by a real HTTP server, and the log."""

import asyncio
import json
import logging
import queue
import ssl
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from aiosmtpd.handlers import Message as MailHandler
from aiosmtpd.smtp import SMTP, AuthResult

from regulus.errors import AlarmUndelivered, ConfigError
from regulus.reliability.alarm_channels import (
    LINES_MAX,
    Digest,
    LogChannel,
    MailChannel,
    MailSecurity,
    WebhookChannel,
)
from regulus.reliability.alarms import Alarm
from tests.certificates import make_certificate

OPEN = Alarm(1, "MANUAL", "order-7", "sent 16 times", 1_000, None)
OVER = Alarm(2, "DEAD_LETTER", "order-8", "given up\r\nX-Evil: 1", 2_000, 3_000)
LINES = ["1970-01-01 00:00:01+00:00 MANUAL order-7: sent 16 times",
         "1970-01-01 00:00:02+00:00 DEAD_LETTER order-8: given up X-Evil: 1 (over)"]
SAFE = {"sender": "regulus@example.org", "recipients": ["ann@example.org", "bob@example.org"]}


class Mailbox(MailHandler):
    def __init__(self):
        super().__init__()
        self.mails = []
        self.refuses = ()

    async def handle_RCPT(self, server, session, envelope, address, options):
        if address in self.refuses:
            return "550 no such user"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    def handle_message(self, message):
        self.mails.append(message)


@contextmanager
def mail_server(handler, certificate=None, *, is_implicit=False, **options):
    """At a free port, which is given; in a thread with an event loop of its own."""
    context = None
    if certificate is not None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(*certificate)
    outside, inside = (context, None) if is_implicit else (None, context)
    loop = asyncio.new_event_loop()

    def serve():
        server = loop.run_until_complete(loop.create_server(
            lambda: SMTP(handler, loop=loop, hostname="127.0.0.1", tls_context=inside, **options),
            "127.0.0.1", 0, ssl=outside))
        ports.put(server.sockets[0].getsockname()[1])
        loop.run_until_complete(ended.wait())
        server.close()

    ports, ended = queue.Queue(), asyncio.Event()
    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield ports.get(timeout=60)
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join(60)
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


@pytest.fixture
def mailbox():
    return Mailbox()


@pytest.fixture
def certificate(tmp_path):
    return make_certificate(tmp_path)


def plain(port, **more):
    return MailChannel(host="127.0.0.1", port=port, security=MailSecurity.NONE, **SAFE | more)


def test_many_alarms_are_one_mail(mailbox):
    with mail_server(mailbox) as port:
        plain(port).send(Digest([OPEN, OVER]))
    [mail] = mailbox.mails
    assert mail["Subject"] == "2 alarms of the outbox: 1 DEAD_LETTER, 1 MANUAL"
    assert (mail["From"], mail["To"]) == ("regulus@example.org", "ann@example.org, bob@example.org")
    assert mail["X-RcptTo"] == "ann@example.org, bob@example.org"
    assert mail.get_payload().splitlines() == LINES
    assert mail["Date"]
    assert mail["Message-ID"].endswith("@example.org>")


def test_a_digest_names_so_many_and_counts_the_others():
    digest = Digest([OPEN._replace(alarm_id=number) for number in range(LINES_MAX + 7)])
    assert digest.title == f"{LINES_MAX + 7} alarms of the outbox: {LINES_MAX + 7} MANUAL"
    assert (len(digest.lines), digest.lines[-1]) == (LINES_MAX + 1, "and 7 more")
    assert Digest([OPEN]).title == "1 alarm of the outbox: 1 MANUAL"


@pytest.mark.filterwarnings("ignore:Requiring AUTH")      # over TLS from the first byte on
@pytest.mark.parametrize("security", [MailSecurity.STARTTLS, MailSecurity.TLS])
def test_a_login_goes_over_tls(mailbox, certificate, security):
    seen = []

    def authenticate(server, session, envelope, mechanism, given):
        seen.append((given.login, given.password))
        return AuthResult(success=given.password == b"secret", handled=False)

    options = {"is_implicit": security is MailSecurity.TLS, "authenticator": authenticate, "auth_required": True,
               "auth_require_tls": security is MailSecurity.STARTTLS}
    trusts = ssl.create_default_context(cafile=certificate[0])
    with mail_server(mailbox, certificate, **options) as port:
        channel = MailChannel(host="127.0.0.1", port=port, security=security, user="regulus", password="secret",
                              context=trusts, **SAFE)
        channel.send(Digest([OPEN]))
        wrong = MailChannel(host="127.0.0.1", port=port, security=security, user="regulus", password="guess",
                            context=trusts, **SAFE)
        with pytest.raises(AlarmUndelivered, match="SMTPAuthenticationError"):
            wrong.send(Digest([OPEN]))
    assert (len(mailbox.mails), seen[0]) == (1, (b"regulus", b"secret"))
    assert "secret" not in repr(channel)


def test_a_server_whose_certificate_nobody_signed_gets_no_mail(mailbox, certificate):
    with mail_server(mailbox, certificate) as port, pytest.raises(AlarmUndelivered, match="CERTIFICATE_VERIFY_FAILED"):
        MailChannel(host="127.0.0.1", port=port, user="regulus", password="secret", **SAFE).send(Digest([OPEN]))
    assert mailbox.mails == []


def test_a_server_without_tls_gets_no_mail_that_asks_for_it(mailbox):
    with mail_server(mailbox) as port, pytest.raises(AlarmUndelivered, match="STARTTLS"):
        MailChannel(host="127.0.0.1", port=port, **SAFE).send(Digest([OPEN]))
    assert mailbox.mails == []


def test_a_recipient_who_is_refused_is_logged_and_the_others_have_the_mail(mailbox, caplog):
    mailbox.refuses = ("bob@example.org",)
    with mail_server(mailbox) as port, caplog.at_level(logging.ERROR):
        plain(port).send(Digest([OPEN]))
    assert mailbox.mails[0]["X-RcptTo"] == "ann@example.org"
    assert "refuses bob@example.org: 550 no such user" in caplog.text


def test_no_recipient_no_delivery(mailbox):
    mailbox.refuses = ("ann@example.org", "bob@example.org")
    with mail_server(mailbox) as port, pytest.raises(AlarmUndelivered, match="SMTPRecipientsRefused"):
        plain(port).send(Digest([OPEN]))


def test_a_mail_server_that_is_away_is_told(mailbox):
    with mail_server(mailbox) as port:
        pass
    with pytest.raises(AlarmUndelivered, match=f"mail by 127.0.0.1:{port} failed .* look at host"):
        plain(port).send(Digest([OPEN]))


class Hook(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.requests.append((self.path, self.headers["Authorization"], self.headers["Content-Type"], body))
        status = self.server.answers.pop(0) if self.server.answers else 204
        self.send_response(status)
        if status == 302:
            self.send_header("Location", "/elsewhere")
        self.end_headers()

    do_GET = do_POST

    def log_message(self, *_):
        pass


@pytest.fixture
def hook():
    with ThreadingHTTPServer(("127.0.0.1", 0), Hook) as server:
        server.requests, server.answers = [], []
        server.url = f"http://127.0.0.1:{server.server_port}/alarms"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join(60)


def test_a_webhook_gets_what_a_chat_shows_and_what_a_program_reads(hook):
    WebhookChannel(url=hook.url, headers={"Authorization": "Bearer x"}).send(Digest([OPEN, OVER]))
    [(path, authorization, content_type, body)] = hook.requests
    assert (path, authorization, content_type) == ("/alarms", "Bearer x", "application/json")
    told = json.loads(body)
    assert told["text"].splitlines() == ["2 alarms of the outbox: 1 DEAD_LETTER, 1 MANUAL", *LINES]
    assert told["alarms"][0] == {"kind": "MANUAL", "subject": "order-7", "detail": "sent 16 times",
                                 "raise_time": 1_000, "closed_time": None}
    assert told["more"] == 0


@pytest.mark.parametrize("status", [302, 404, 500])
def test_a_webhook_that_does_not_take_it_is_told(hook, status):
    hook.answers = [status]
    with pytest.raises(AlarmUndelivered, match=f"webhook at 127.0.0.1 answers {status}"):
        WebhookChannel(url=hook.url).send(Digest([OPEN]))
    assert len(hook.requests) == 1


def test_a_webhook_that_is_away_is_told_without_its_secret(hook):
    with ThreadingHTTPServer(("127.0.0.1", 0), Hook) as gone:
        port = gone.server_port
    channel = WebhookChannel(url=f"http://127.0.0.1:{port}/secret")
    with pytest.raises(AlarmUndelivered, match=r"webhook at 127\.0\.0\.1 failed") as caught:
        channel.send(Digest([OPEN]))
    assert "secret" not in str(caught.value) + repr(channel)


def test_a_webhook_that_does_not_answer_is_left(hook):
    held = threading.Event()

    class Still(Hook):
        def do_POST(self):
            held.wait(60)

    hook.RequestHandlerClass = Still
    try:
        with pytest.raises(AlarmUndelivered, match="TimeoutError"):
            WebhookChannel(url=hook.url, timeout_ms=50).send(Digest([OPEN]))
    finally:
        held.set()


def test_the_log_has_a_line_for_each(caplog):
    with caplog.at_level(logging.ERROR):
        LogChannel().send(Digest([OPEN, OVER]))
    assert [record.getMessage() for record in caplog.records] == LINES


@pytest.mark.parametrize(("values", "says"), [
    ({"recipients": []}, "recipients is empty"), ({"recipients": "ann@example.org"}, "one text"),
    ({"recipients": ["ann@example.org\nBcc: x@y"]}, "not an address of a mail"),
    ({"sender": "regulus"}, "not an address"),
    ({"user": "regulus", "security": MailSecurity.NONE}, "travel readable"), ({"timeout_ms": 0}, "timeout_ms is 0")])
def test_a_mail_channel_refuses(values, says):
    with pytest.raises(ConfigError, match=says):
        MailChannel(host="127.0.0.1", **SAFE | values)


@pytest.mark.parametrize(("url", "headers", "says"), [
    ("https://hooks.example.org/secret\n", {}, "url has blanks"), ("https://hooks.example.org/a secret", {}, "url has"),
    ("https://hooks.example.org", {"Authorization": "Bearer secret\n"}, "read from a file"),
    ("https://hooks.example.org", {"secret\n": "x"}, "headers has ends of lines")])
def test_a_webhook_refuses_what_would_be_named_in_an_error_and_does_not_name_it(url, headers, says):
    with pytest.raises(ConfigError, match=says) as refused:
        WebhookChannel(url=url, headers=headers)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("url", ["file:///etc/passwd", "https://", "hooks.example.org/x"])
def test_a_webhook_refuses_what_is_no_address_of_the_web(url):
    with pytest.raises(ConfigError, match="not an address of the web"):
        WebhookChannel(url=url)
