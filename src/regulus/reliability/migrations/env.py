"""The script that Alembic runs: the migrations, on the given connection."""

from alembic import context

from regulus.reliability.migrations import VERSION_TABLE
from regulus.reliability.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata,
                  version_table=VERSION_TABLE, transaction_per_migration=False, render_as_batch=True)
context.run_migrations()
