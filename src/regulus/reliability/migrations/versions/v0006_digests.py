"""The digest of the message of an inbox row, which distinguishes a copy from a different message with the same id."""

import sqlalchemy as sa
from alembic import op

from regulus.reliability.migrations import steps

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    steps.add_column("regulus_inbox", sa.Column("digest", sa.String(16)))


def downgrade() -> None:
    op.drop_column("regulus_inbox", "digest")
