"""In MySQL and MariaDB, make ids, groups, topics and the keys of alarms case-sensitive."""

from alembic import op

revision = "0007"
down_revision = "0006"

_TABLES = ("regulus_stub", "regulus_confirmation", "regulus_inbox", "regulus_message_log", "regulus_watermark",
           "regulus_attempt", "regulus_action", "regulus_alarm")


def upgrade() -> None:
    if op.get_context().dialect.name in ("mysql", "mariadb"):
        for table in _TABLES:
            op.execute(f"ALTER TABLE {table} CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")


def downgrade() -> None:
    """Fails if there are names by now that the former collation treats as equal."""
