"""A setting of Spark's for the tests of jobs."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module", autouse=True)
def _plans_interpreted(request: pytest.FixtureRequest) -> Iterator[None]:
    """A job's test runs each of its plans once, over few rows: to compile it, and to plan it anew by what its stages
    gave, takes Spark longer than to run it."""
    if request.node.get_closest_marker("jobs") is None:
        yield
        return
    session: SparkSession = request.getfixturevalue("spark")
    settings = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN",
                "spark.sql.adaptive.enabled": "false"}
    for name, value in settings.items():
        session.conf.set(name, value)
    yield
    for name in settings:
        session.conf.unset(name)
