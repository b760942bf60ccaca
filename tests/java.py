"""The Java that the tests start Spark with; what must be made for it is made in a directory of the test's."""

import os
from pathlib import Path

from regulus.spark.java import Java, JavaPlaces, find_java

SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For a JVM of tests, which runs each plan once: the second compiler takes more than half of all its time."""


def java_of_tests(cache: Path) -> Java:
    return find_java(JavaPlaces(java_home=os.environ.get("JAVA_HOME", ""), path=os.environ.get("PATH", ""),
                                cache=cache))
