"""What a row of the inbox was written for, so that another message of the same id is told from a copy."""

import sqlalchemy as sa
from alembic import op

from regulus.reliability.migrations import steps

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    steps.add_column("regulus_inbox", sa.Column("digest", sa.String(16)))


def downgrade() -> None:
    op.drop_column("regulus_inbox", "digest")
