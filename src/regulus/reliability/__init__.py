"""One commit, one effect: messages that are stored with the business data they speak of, and applied once.

`outbox` writes a message into a table in the caller's own transaction, `relay` and `relay_loop` bring it to a broker,
`inbox` has a listener's effect and its confirmation in one transaction. Needs the extra `sql`.
"""

from importlib.util import find_spec

from regulus.errors import MissingExtra

if find_spec("sqlalchemy") is None:
    raise MissingExtra("regulus.reliability needs sqlalchemy, which is not installed: pip install 'regulus-mq[sql]'")
