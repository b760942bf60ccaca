"""In PostgreSQL, leave room in the pages of new stubs for changes of their rows, so that only the changes are
logged."""

from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    if op.get_context().dialect.name == "postgresql":
        op.execute("ALTER TABLE regulus_stub SET (fillfactor = 50)")


def downgrade() -> None:
    if op.get_context().dialect.name == "postgresql":
        op.execute("ALTER TABLE regulus_stub RESET (fillfactor)")
