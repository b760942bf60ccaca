"""The command line. No other package reads arguments, the environment or configuration files."""
