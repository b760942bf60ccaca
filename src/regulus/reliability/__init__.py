"""One commit, one effect: messages are stored with the business data that they refer to, and applied once.

`outbox` writes a message into a table in the caller's own transaction, `relay` and `relay_loop` send it to a broker,
`inbox` makes a listener's effect and its confirmation one transaction. Needs the extra `sql`.
"""

from importlib.util import find_spec

from regulus.errors import MissingExtra

if find_spec("sqlalchemy") is None:
    raise MissingExtra("regulus.reliability needs sqlalchemy, which is not installed: pip install 'regulus-mq[sql]'")
