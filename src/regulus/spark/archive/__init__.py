"""The archive as a table: its layout, which files a read takes, and reading them."""
