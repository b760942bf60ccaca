"""Who may do what: accounts, permissions and white lists, decided without I/O."""
