"""Reads tables of databases by Spark's own JDBC reader, in a limited number of parts, and some rows at a time.

PostgreSQL, MySQL and MariaDB are named by their addresses, and their driver is fetched from Maven if Spark has none.
Any other database is named by its JDBC URL, and Spark must have been given its driver.

A table is divided by a column of whole numbers, dates or times: the one that the option `partitionColumn` names, else
the key if it is a whole number. One query finds its least and its greatest value. A row that is added meanwhile, even
outside of these values, is read as well, because the first and the last part have no outer limit.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeVar
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DateType, DecimalType, IntegralType, TimestampNTZType, TimestampType

from regulus.errors import JobRefused
from regulus.model.java_numbers import LONG_MAX
from regulus.spark.runtime.error_reason import java_reason, reason

Done = TypeVar("Done")
PARTITIONS_MAX = 8
"""Parts of a table, at most. Each uses a connection while it is read, and a database has few of them."""
PARTITION_NUMBERS = 50_000
"""Whole numbers between the least and the greatest value that a part covers at least."""
FETCH_ROWS = 1000
"""Rows that a driver requests at a time, instead of all."""

_NOT_OPTIONS = frozenset({"url", "dbtable", "query", "password", "lowerbound", "upperbound"})
"""Options that a user must not give: the address has them, a query finds them, or a text must not have them."""

_NO_DRIVER = "No suitable driver"
"""Java's message for a missing driver."""

_CUTS = ("partitionColumn", "numPartitions")
"""Options that Spark accepts only together with the least and greatest value."""

_LIBPQ_ALONE = frozenset({"host", "hostaddr", "port", "dbname", "service"})
"""Parameters by which libpq finds a database. Spark's driver ignores them, and would find another database."""

_UTC = "SET TIME ZONE 'UTC'"
"""The zone of PostgreSQL's session, which is otherwise Java's: Spark writes limits of a column of times in its own."""
_MARIADB_TIMES = "permitMysqlScheme&connectionTimeZone=UTC&forceConnectionTimeZoneToSession=true&preserveInstants=true"
"""Parameters for MariaDB's driver. The scheme is MySQL's, because Spark quotes names by it. A TIMESTAMP is in UTC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """A driver. `package`: its coordinates in Maven. `password`: the variable that the database's own programs read."""

    name: str
    package: str
    password: str


POSTGRESQL = Driver(name="org.postgresql.Driver", package="org.postgresql:postgresql:42.7.13", password="PGPASSWORD")
MARIADB = Driver(name="org.mariadb.jdbc.Driver", package="org.mariadb.jdbc:mariadb-java-client:3.5.9",
                 password="MYSQL_PWD")
"""MariaDB's driver, which is also used for MySQL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JdbcTable:
    """A table. `name`: its name in messages. `table`: its name in SQL. `quote`: the sign around names.

    `options`: those of Spark's reader and of the driver. `driver`: None if Spark was given it. `password`: the password
    if it must not be looked for.
    """

    name: str
    url: str
    table: str
    options: Mapping[str, str]
    user: str = field(default="", repr=False)
    quote: str = '"'
    driver: Driver | None = None
    password: str | None = field(default=None, repr=False)

    def read(self, spark: SparkSession, key: str, parts: Sequence[str] = ()) -> DataFrame:
        """All columns; Spark requests only those that are used. A `key` with decimals becomes text in the form of the
        database. `parts`: conditions of which each row meets exactly one, if the caller knows how to divide the table.
        Raises JobRefused when the table cannot be read.
        """
        frame = self._load(spark, {"dbtable": self.table})
        if parts:
            return self._tried(lambda: spark.read.options(**self._reading()).jdbc(
                self.url, self.table, predicates=list(parts)))
        kinds = {column.name: column.dataType for column in frame.schema}
        more = {"customSchema": f"`{key}` STRING"} if _has_decimals(kinds.get(key)) else {}
        more |= self._parts(spark, kinds, key)
        return self._load(spark, {"dbtable": self.table, **more}) if more else frame

    def provide_driver(self, spark: SparkSession) -> None:
        """Make sure that Spark has a driver. Raises JobRefused when there is none, or the table cannot be read."""
        self._load(spark, {"dbtable": self.table})

    def _parts(self, spark: SparkSession, kinds: Mapping[str, DataType], key: str) -> dict[str, str]:
        """The options that divide the table; none if it is read in one piece."""
        chosen = self.options.get("partitionColumn")
        column = chosen or key
        kind = kinds.get(column)
        if chosen and not (_is_whole(kind) or isinstance(kind, DateType | TimestampType | TimestampNTZType)):
            raise JobRefused(f"{self.name} cannot be read in parts by partitionColumn={chosen}: name one of its "
                             "columns of whole numbers, dates or times")
        if not chosen and not _is_whole(kind):
            return {}
        name = self.quote + column.replace(self.quote, self.quote * 2) + self.quote
        ends = self._load(spark, {"query": f"SELECT MIN({name}) AS low, MAX({name}) AS high FROM {self.table}"})
        low, high = self._tried(ends.select(*(F.col(end).cast("string") for end in ends.columns)).collect)[0]
        if low is None:
            return {}
        count = PARTITIONS_MAX
        if _is_whole(kind):
            # Spark takes no larger limits; greater values are in the last part.
            low, high = (str(max(-LONG_MAX, min(int(end), LONG_MAX))) for end in (low, high))
            count = min(count, (int(high) - int(low)) // PARTITION_NUMBERS + 1)
        return {"partitionColumn": column, "lowerBound": low, "upperBound": high,
                "numPartitions": self.options.get("numPartitions", str(count))}

    def _load(self, spark: SparkSession, more: Mapping[str, str]) -> DataFrame:
        options = {**self._reading(), "url": self.url, **more}

        def load() -> DataFrame:
            frame = spark.read.format("jdbc").options(**options).load()
            _ = frame.schema    # because Spark Connect reads the table's columns only now
            return frame

        driver = self.driver
        if driver is None:
            return self._tried(load)
        try:
            return load()
        except (PySparkException, Py4JJavaError) as error:
            if not _lacks(error, driver.name):
                raise JobRefused(f"{self.name} cannot be read: {_cause(error)}") from error
        fetch(spark, driver)
        return self._tried(load)

    def _reading(self) -> dict[str, str]:
        given = {name: value for name, value in self.options.items() if name not in _CUTS}
        return {"fetchsize": str(FETCH_ROWS), "preferTimestampNTZ": "true", **self._login(), **given}

    def _tried(self, deed: Callable[[], Done]) -> Done:
        try:
            return deed()
        except (PySparkException, Py4JJavaError) as error:
            if _NO_DRIVER in _texts(error):
                raise JobRefused(f"Spark has no driver for {self.name}: give it the jar, as spark.jars in "
                                 f"$SPARK_CONF_DIR/spark-defaults.conf{_simpler(self.url)}") from error
            raise JobRefused(f"{self.name} cannot be read: {_cause(error)}") from error

    def _login(self) -> dict[str, str]:
        login = {"user": self.user} if self.user else {}
        if self.driver is None:
            return login
        login["driver"] = self.driver.name
        password = self.password or os.environ.get(self.driver.password)
        return {**login, "password": password} if password else login


def fetch(spark: SparkSession, driver: Driver) -> None:
    """Let Spark fetch the driver from Maven, and keep it for later. Raises JobRefused when it cannot."""
    try:
        spark.sql(f"ADD JAR 'ivy://{driver.package}?transitive=false'")
    except (PySparkException, Py4JJavaError) as error:
        raise JobRefused(f"Spark has no {driver.name} and cannot fetch {driver.package} from Maven: give it the jar, "
                         "as spark.jars in $SPARK_CONF_DIR/spark-defaults.conf") from error


def postgresql_table(place: str, table: str, options: Mapping[str, str]) -> JdbcTable:
    """A table of PostgreSQL. `place`: an address in the form of libpq. Raises JobRefused for one that only libpq
    understands."""
    parts = urlsplit(place)
    user, hosts = _who_and_where(place)
    alone = sorted({name for name, _ in parse_qsl(parts.query)} & _LIBPQ_ALONE)
    if alone:
        raise JobRefused(f"{place}: Spark's driver does not know {', '.join(alone)}: write host, port and database as "
                         "postgresql://user@host:5432/database")
    query = f"?{parts.query}" if parts.query else ""
    return JdbcTable(name=f"{place}#{table}", url=f"jdbc:postgresql://{hosts}{parts.path}{query}", user=user,
                     table=_quoted(table, '"'), options={"sessionInitStatement": _UTC, **options}, driver=POSTGRESQL)


def mysql_table(place: str, table: str, options: Mapping[str, str]) -> JdbcTable:
    """A table of MySQL or MariaDB. Raises JobRefused for an address with other parameters than `ssl_ca`."""
    user, hosts = _who_and_where(place)
    authority = mysql_authority(place)
    secured = f"&sslMode=verify-full&serverSslCert={quote(authority)}" if authority else ""
    return JdbcTable(name=f"{place}#{table}", user=user, table=_quoted(table, "`"), quote="`", options=options,
                     url=f"jdbc:mysql://{hosts}{urlsplit(place).path}?{_MARIADB_TIMES}{secured}", driver=MARIADB)


def mysql_authority(place: str) -> str | None:
    """The file of `?ssl_ca=`, with which the server is verified; None if the connection is not secured.

    Raises JobRefused for any other parameter, which one of the two drivers would not know.
    """
    given = dict(parse_qsl(urlsplit(place).query, keep_blank_values=True))
    others = sorted(given.keys() - {"ssl_ca"})
    if others:
        raise JobRefused(f"{place}: {', '.join(others)} cannot be given here; ssl_ca=/path/ca.pem can, and behind the "
                         "table the options of Spark's reader and its driver")
    return given.get("ssl_ca")


def url_table(url: str, table: str, options: Mapping[str, str]) -> JdbcTable:
    """A table of any database for which Spark has a driver; `table` is its name in that database's SQL."""
    return JdbcTable(name=f"{url}#{table}", url=url, table=table, options=options,
                     quote="`" if url.startswith(("jdbc:mysql:", "jdbc:mariadb:")) else '"')


NAMED: Mapping[str, Callable[[str, str, Mapping[str, str]], JdbcTable]] = MappingProxyType(
    {"postgresql": postgresql_table, "mysql": mysql_table, "mariadb": mysql_table, "jdbc": url_table})
"""The functions that make a table, by the kind of an outside table."""


def checked_options(given: Mapping[str, str]) -> dict[str, str]:
    """Raises JobRefused for an option that the user must not give."""
    for name in given:
        if name.lower() in _NOT_OPTIONS:
            raise JobRefused(f"{name} is not an option of a table: partitionColumn, numPartitions, fetchsize and those "
                             "of the driver are")
    return dict(given)


def _who_and_where(place: str) -> tuple[str, str]:
    parts = urlsplit(place)
    user, _, hosts = parts.netloc.rpartition("@")
    if not hosts or not parts.path.strip("/"):
        raise JobRefused(f"{place}: write {parts.scheme}://user@host/database: Spark's driver goes to a host by TCP")
    return unquote(user), hosts


def _quoted(name: str, sign: str) -> str:
    return ".".join(sign + part.replace(sign, sign * 2) + sign for part in name.split("."))


def _is_whole(kind: DataType | None) -> bool:
    return isinstance(kind, IntegralType) or (isinstance(kind, DecimalType) and kind.scale == 0)


def _has_decimals(kind: DataType | None) -> bool:
    return isinstance(kind, DecimalType) and kind.scale > 0


def _texts(error: BaseException) -> str:
    """The texts of an error and of its causes, which Spark keeps separately from Python's own chain."""
    texts: list[str] = []
    link: BaseException | None = error
    while link is not None:
        texts.append(str(link))
        link = getattr(link, "_cause", None)
    return "\n".join(texts)


def _simpler(url: str) -> str:
    kind = url.removeprefix("jdbc:").partition(":")[0]
    return f"; or write {kind}://user@host/database#table, whose driver is fetched" if kind in NAMED else ""


def _lacks(error: BaseException, class_name: str) -> bool:
    text = _texts(error)
    return "ClassNotFoundException" in text and class_name in text


def _cause(error: BaseException) -> str:
    """The message of the database or its driver, else of Spark."""
    return java_reason(_texts(error)) or reason(str(error))
