"""Extends the index of new stubs for MySQL and MariaDB to stubs that are due again: by their count, without those left
to a human."""

import sqlalchemy as sa

from regulus.reliability.migrations import steps

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    _renew(["status", "is_manual", "send_count", "resend_time"])


def downgrade() -> None:
    _renew(["status", "send_count", "resend_time"])


def _renew(columns: list[str]) -> None:
    steps.drop_index("regulus_stub_new", "regulus_stub")
    steps.create_index("regulus_stub_new", "regulus_stub", columns,
                       postgresql_where=sa.text("status = 'UNCONFIRMED' AND NOT is_manual AND send_count = 0"),
                       sqlite_where=sa.text("status = 'UNCONFIRMED' AND is_manual = 0 AND send_count = 0"))
