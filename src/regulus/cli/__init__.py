"""The command line: the only reader of arguments, environment and configuration files."""
