"""The time at which a stub was first sent, so that repeated postponing comes to an end."""

import sqlalchemy as sa
from alembic import op

from regulus.reliability.migrations import steps

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    steps.add_column("regulus_stub", sa.Column("first_send_time", sa.BigInteger))
    op.execute("UPDATE regulus_stub SET first_send_time = create_time WHERE send_count > 0")


def downgrade() -> None:
    op.drop_column("regulus_stub", "first_send_time")
