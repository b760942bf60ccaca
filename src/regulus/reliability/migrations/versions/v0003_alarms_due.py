"""The time at which an alarm may be sent, so that several senders do not send it at once, and a failed one waits."""

import sqlalchemy as sa
from alembic import op

from regulus.reliability.migrations import steps

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    steps.add_column("regulus_alarm", sa.Column("due_time", sa.BigInteger, nullable=False, server_default="0"))


def downgrade() -> None:
    op.drop_column("regulus_alarm", "due_time")
