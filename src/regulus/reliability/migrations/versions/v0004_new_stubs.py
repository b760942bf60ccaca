"""An index of stubs that were never sent, so that a relay finds them however many wait for their effect."""

import sqlalchemy as sa
from alembic import op

from regulus.reliability.migrations import steps

revision = "0004"
down_revision = "0003"

_WAITS = {"postgresql": "status = 'UNCONFIRMED' AND NOT is_manual",
          "sqlite": "status = 'UNCONFIRMED' AND is_manual = 0"}


def upgrade() -> None:
    steps.drop_index("regulus_stub_due", "regulus_stub")
    _create("regulus_stub_due", ["status", "resend_time"], " AND send_count > 0")
    _create("regulus_stub_new", ["status", "send_count", "resend_time"], " AND send_count = 0")


def downgrade() -> None:
    op.drop_index("regulus_stub_new", "regulus_stub")
    op.drop_index("regulus_stub_due", "regulus_stub")
    _create("regulus_stub_due", ["status", "resend_time"], "")


def _create(name: str, columns: list[str], and_where: str) -> None:
    steps.create_index(name, "regulus_stub", columns, postgresql_where=sa.text(_WAITS["postgresql"] + and_where),
                    sqlite_where=sa.text(_WAITS["sqlite"] + and_where))
