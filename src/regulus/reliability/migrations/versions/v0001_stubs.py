"""The stub table."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

from regulus.reliability.migrations import steps

revision = "0001"
down_revision = None

_ID = sa.String(128).with_variant(mysql.VARCHAR(128, charset="utf8mb4", collation="utf8mb4_bin"), "mysql", "mariadb")


def upgrade() -> None:
    steps.create_table(
        "regulus_stub",
        sa.Column("message_id", _ID, primary_key=True),
        sa.Column("topic", sa.String(127), nullable=False),
        sa.Column("tags", sa.String(255), nullable=False),
        sa.Column("body", sa.LargeBinary(4 << 20), nullable=False),
        sa.Column("properties", sa.Text, nullable=False),
        sa.Column("flag", sa.Integer, nullable=False),
        sa.Column("status", sa.String(11), nullable=False),
        sa.Column("send_count", sa.Integer, nullable=False),
        sa.Column("resend_time", sa.BigInteger, nullable=False),
        sa.Column("broker_name", sa.String(255)),
        sa.Column("queue_id", sa.Integer),
        sa.Column("queue_offset", sa.BigInteger),
        sa.Column("create_time", sa.BigInteger, nullable=False),
        sa.Column("last_error", sa.String(500)),
        sa.Column("is_manual", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("version", sa.Integer, nullable=False),
        sa.CheckConstraint("status IN ('UNCONFIRMED', 'CONFIRMED', 'VOIDED')", name="regulus_stub_status"))
    steps.create_index("regulus_stub_due", "regulus_stub", ["status", "resend_time"],
                    postgresql_where=sa.text("status = 'UNCONFIRMED' AND NOT is_manual"),
                    sqlite_where=sa.text("status = 'UNCONFIRMED' AND is_manual = 0"))


def downgrade() -> None:
    op.drop_table("regulus_stub")
