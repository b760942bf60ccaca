"""Jobs over the log as a table: audit, reconciliation, redrive, replay, search and reports."""
