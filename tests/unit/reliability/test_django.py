"""Django's own connection takes stubs, in the transaction of `atomic()`."""

import subprocess
import sys

from .shop import count_stubs, stub

PROGRAM = """
import sys
from django.conf import settings

settings.configure(DATABASES={"default": %(database)r}, USE_TZ=True)
import django
django.setup()
from django.db import connection, transaction
from regulus.errors import ReliabilityRefused
from regulus.model.message import Message
from regulus.reliability.outbox import Outbox

outbox = Outbox(groups=("billing", "stock"))

def order(message_id):
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO orders(id) VALUES (%%s)", [message_id])
    outbox.add(connection, Message("orders", b"one tea", "new"), message_id=message_id)

def order_without_django(message_id):
    outbox.add(connection, Message("orders", b"one tea", "new"), message_id=message_id)

with transaction.atomic():
    order("kept")
    with transaction.atomic():
        order("kept-too")
try:
    with transaction.atomic():
        order("rolled-back")
        raise RuntimeError
except RuntimeError:
    pass
with transaction.atomic():
    order("around")
    try:
        with transaction.atomic():
            order("to-a-savepoint")
            raise RuntimeError
    except RuntimeError:
        pass
try:
    with transaction.atomic(durable=True):
        order("beside-what-broke")
        try:
            with transaction.atomic(savepoint=False):
                raise RuntimeError
        except RuntimeError:
            order_without_django("behind-what-broke")
except transaction.TransactionManagementError:
    pass
try:
    outbox.add(connection, Message("orders", b"one tea"))
except ReliabilityRefused as error:
    print(error)
"""


def database(engine):
    if engine.dialect.name == "sqlite":
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": engine.url.database}
    return {"ENGINE": "django.db.backends.postgresql", "NAME": engine.url.database, "USER": engine.url.username,
            "HOST": engine.url.host, "PORT": engine.url.port}


def test_stubs_are_committed_and_rolled_back_with_the_business(engine):
    program = PROGRAM % {"database": database(engine)}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False,
                          env={"PYTHONPATH": ":".join(sys.path)})
    assert done.returncode == 0, done.stderr
    assert "commits each statement by itself" in done.stdout
    assert "call it within transaction.atomic()" in done.stdout
    assert count_stubs(engine) == 3
    assert [stub(engine, each).body for each in ("kept", "kept-too", "around")] == [b"one tea"] * 3
