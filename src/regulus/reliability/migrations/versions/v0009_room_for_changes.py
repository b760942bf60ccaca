"""In PostgreSQL pages of new stubs keep room for the changes of their rows, which are logged as such then."""

from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    if op.get_context().dialect.name == "postgresql":
        op.execute("ALTER TABLE regulus_stub SET (fillfactor = 50)")


def downgrade() -> None:
    if op.get_context().dialect.name == "postgresql":
        op.execute("ALTER TABLE regulus_stub RESET (fillfactor)")
