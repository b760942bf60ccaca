"""Access control: accounts, permissions and white lists, decided without I/O."""
