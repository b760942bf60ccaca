"""All tables and indexes, written out: `tables` changes with later versions, and this one must not."""

from typing import Any

import sqlalchemy as sa
from alembic import op

from regulus.reliability.migrations import steps

revision = "0001"
down_revision = None

_ID = sa.String(128)
_GROUP = sa.String(255)
_NUMBERED = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_WAITS = {"postgresql": "status = 'UNCONFIRMED' AND NOT is_manual AND {}",
          "sqlite": "status = 'UNCONFIRMED' AND is_manual = 0 AND {}"}
_TABLES = ("regulus_alarm", "regulus_action", "regulus_attempt", "regulus_watermark", "regulus_message_log",
           "regulus_inbox", "regulus_confirmation", "regulus_stub")


def upgrade() -> None:
    steps.create_table(
        "regulus_stub",
        sa.Column("message_id", _ID, primary_key=True),
        sa.Column("topic", sa.String(127), nullable=False),
        sa.Column("tags", sa.String(255), nullable=False),
        sa.Column("body", sa.LargeBinary(4 << 20), nullable=False, quote=True),
        sa.Column("properties", sa.Text, nullable=False),
        sa.Column("flag", sa.Integer, nullable=False),
        sa.Column("status", sa.String(11), nullable=False),
        sa.Column("send_count", sa.Integer, nullable=False),
        sa.Column("resend_time", sa.BigInteger, nullable=False),
        sa.Column("first_send_time", sa.BigInteger),
        *_position(nullable=True),
        sa.Column("create_time", sa.BigInteger, nullable=False),
        sa.Column("last_error", sa.String(500)),
        sa.Column("is_manual", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("version", sa.Integer, nullable=False),
        sa.CheckConstraint("status IN ('UNCONFIRMED', 'CONFIRMED', 'VOIDED')", name="regulus_stub_status"),
        postgresql_with={"fillfactor": 50})
    steps.create_index("regulus_stub_time", "regulus_stub", ["create_time", "message_id"])
    steps.create_index("regulus_stub_new", "regulus_stub", ["status", "is_manual", "send_count", "resend_time"],
                       **_where("send_count = 0"))
    steps.create_index("regulus_stub_due", "regulus_stub", ["status", "resend_time"], **_where("send_count > 0"))
    steps.create_table(
        "regulus_confirmation",
        sa.Column("message_id", _ID, primary_key=True),
        sa.Column("consumer_group", _GROUP, primary_key=True),
        sa.Column("status", sa.String(11), nullable=False),
        sa.Column("confirm_time", sa.BigInteger),
        sa.CheckConstraint("status IN ('UNCONFIRMED', 'CONFIRMED', 'VOIDED')", name="regulus_confirmation_status"))
    steps.create_table(
        "regulus_inbox",
        sa.Column("message_id", _ID, primary_key=True),
        sa.Column("consumer_group", _GROUP, primary_key=True),
        *_position(nullable=False),
        sa.Column("digest", sa.String(16)),
        sa.Column("apply_time", sa.BigInteger, nullable=False))
    steps.create_index("regulus_inbox_time", "regulus_inbox", ["apply_time"])
    steps.create_table(
        "regulus_message_log",
        sa.Column("message_id", _ID, primary_key=True),
        sa.Column("consumer_group", _GROUP, primary_key=True),
        sa.Column("topic", sa.String(127), nullable=False),
        *_position(nullable=False),
        sa.Column("reconsume_times", sa.Integer, nullable=False),
        sa.Column("create_time", sa.BigInteger, nullable=False),
        sa.Column("receive_time", sa.BigInteger, nullable=False))
    steps.create_table(
        "regulus_watermark",
        sa.Column("consumer_group", _GROUP, primary_key=True),
        sa.Column("topic", sa.String(127), primary_key=True),
        sa.Column("broker_name", sa.String(255), primary_key=True),
        sa.Column("queue_id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("queue_offset_max", sa.BigInteger, nullable=False),
        sa.Column("move_time", sa.BigInteger, nullable=False))
    steps.create_table(
        "regulus_attempt",
        sa.Column("attempt_id", _NUMBERED, primary_key=True, autoincrement=True),
        sa.Column("message_id", _ID, nullable=False),
        sa.Column("kind", sa.String(8), nullable=False),
        sa.Column("consumer_group", _GROUP),
        sa.Column("number", sa.Integer, nullable=False),
        *_position(nullable=True),
        sa.Column("begin_time", sa.BigInteger, nullable=False),
        sa.Column("end_time", sa.BigInteger, nullable=False),
        sa.Column("outcome", sa.String(16), nullable=False),
        sa.Column("detail", sa.String(500)),
        sa.CheckConstraint("kind IN ('SEND', 'DELIVERY')", name="regulus_attempt_kind"))
    steps.create_index("regulus_attempt_message", "regulus_attempt", ["message_id"])
    steps.create_index("regulus_attempt_time", "regulus_attempt", ["begin_time"])
    steps.create_table(
        "regulus_action",
        sa.Column("action_id", _NUMBERED, primary_key=True, autoincrement=True),
        sa.Column("message_id", _ID, nullable=False),
        sa.Column("action", sa.String(8), nullable=False),
        sa.Column("operator", sa.String(128), nullable=False),
        sa.Column("reason", sa.String(500), nullable=False),
        sa.Column("action_time", sa.BigInteger, nullable=False),
        sa.CheckConstraint("action IN ('RETRY', 'VOID', 'CONFIRM')", name="regulus_action_action"))
    steps.create_index("regulus_action_message", "regulus_action", ["message_id"])
    steps.create_table(
        "regulus_alarm",
        sa.Column("alarm_id", _NUMBERED, primary_key=True, autoincrement=True),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("subject", sa.String(255), nullable=False),
        sa.Column("detail", sa.String(500), nullable=False),
        sa.Column("raise_time", sa.BigInteger, nullable=False),
        sa.Column("due_time", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("sent_time", sa.BigInteger),
        sa.Column("closed_time", sa.BigInteger),
        sa.Column("open_key", sa.String(300), unique=True))


def downgrade() -> None:
    for table in _TABLES:
        op.drop_table(table)


def _position(*, nullable: bool) -> tuple[sa.Column[object], ...]:
    return (sa.Column("broker_name", sa.String(255), nullable=nullable),
            sa.Column("queue_id", sa.Integer, nullable=nullable),
            sa.Column("queue_offset", sa.BigInteger, nullable=nullable))


def _where(condition: str) -> dict[str, Any]:
    """The index holds stubs that a relay waits for, where the database can leave out the others."""
    return {f"{name}_where": sa.text(waits.format(condition)) for name, waits in _WAITS.items()}
