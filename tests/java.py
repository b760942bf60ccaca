"""The Java that the tests start Spark with.

    python -m tests.java DIRECTORY      make one for JVMs that live for seconds; it serves as JAVA_HOME

A test's JVM runs each plan once: loading classes takes most of its time, and the second compiler more than half of the
rest. So the Java made here compiles once and takes Spark's classes from an archive (class data sharing), which a JVM
that runs a bit of everything writes at its end. Without it the tests are slower and no different.
"""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from regulus.pipeline.graph.spark_conf import settings, write_conf
from regulus.spark.runtime.java import Java, JavaPlaces, find_java

GOLDEN_STORE = Path(__file__).parent / "golden" / "store-4.9.8"
# With one compiler Java would keep 48 MB for code, which a run of all tests may fill; the size is that of two.
ONE_COMPILER = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
# A JVM that cannot use the archive says nothing and goes on without it. It can where its class path begins as that of
# the JVM that wrote it, and Spark's begins with the directory of its settings, which is another for each pipeline: it
# goes to the end.
SCRIPT = """\
#!/bin/sh
count=$#
last=
while [ $count -gt 0 ]; do
    argument=$1
    shift
    case $last:$argument in -cp:*:*) argument=${{argument#*:}}:${{argument%%:*}} ;; esac
    last=$argument
    set -- "$@" "$argument"
    count=$((count - 1))
done
exec {java} {options} "$@"
"""


def java_of_tests(cache: Path) -> Java:
    """What must be made for it is made under `cache`."""
    return find_java(JavaPlaces(java_home=os.environ.get("JAVA_HOME", ""), path=os.environ.get("PATH", ""),
                                cache=cache))


def make_short_lived(directory: Path) -> None:
    shutil.rmtree(directory, ignore_errors=True)
    (directory / "bin").mkdir(parents=True)
    java = java_of_tests(directory.parent / "packaged")
    archive = directory / "spark.jsa"
    write_script(directory, java, f"{ONE_COMPILER} -Xlog:disable")
    write_archive(directory, archive)
    write_script(directory, java, f"{ONE_COMPILER} -Xlog:disable -XX:SharedArchiveFile={shlex.quote(str(archive))}")
    # The last, for with it a directory counts as made.
    shutil.copy(java.home / "release", directory)


def write_script(home: Path, java: Java, options: str) -> None:
    script = home / "bin" / "java"
    script.write_text(SCRIPT.format(java=shlex.quote(str(java.home / "bin" / "java")), options=options))
    script.chmod(0o755)


def write_archive(java_home: Path, archive: Path) -> None:
    """Under spark-submit, which ends after the JVM and not before. A Java that ships no archive makes none."""
    import pyspark

    scratch = archive.with_name("scratch")
    write_conf(scratch, settings(scratch, 2, "1g", {
        "spark.driver.extraJavaOptions": f'"-XX:ArchiveClassesAtExit={archive}"'}))
    submit = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), __file__, "--run", str(scratch)]
    done = subprocess.run(submit, capture_output=True, text=True, timeout=300, env={
        **os.environ, "JAVA_HOME": str(java_home), "SPARK_CONF_DIR": str(scratch), "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1"})
    shutil.rmtree(scratch, ignore_errors=True)
    if done.returncode != 0:
        raise SystemExit(done.stderr)


def run_a_bit_of_everything(scratch: Path) -> None:
    from pyspark.sql import SparkSession

    session = SparkSession.builder.getOrCreate()
    table = session.read.format("rocketmq").option("storePath", str(GOLDEN_STORE)).load(topic="SNormal")
    counts = table.groupBy("topic", "queue_id").count()
    counts.join(table.select("queue_id", "body"), "queue_id").orderBy("count").collect()
    table.select("queue_id", "keys", "store_time").write.parquet(str(scratch / "rows"))
    session.read.parquet(str(scratch / "rows")).selectExpr("max(store_time)", "count(distinct keys)").collect()
    schema = "number int, text string"
    session.createDataFrame([(1, "a")], schema).mapInArrow(lambda rows: rows, schema).count()
    stream = session.readStream.format("rocketmq").option("storePath", str(GOLDEN_STORE)).load(topic="SNormal")
    stream.groupBy("queue_id").count().writeStream.outputMode("complete").format("memory").queryName("counts").option(
        "checkpointLocation", str(scratch / "checkpoint")).trigger(availableNow=True).start().awaitTermination()
    session.stop()


if __name__ == "__main__":
    if sys.argv[1] == "--run":
        run_a_bit_of_everything(Path(sys.argv[2]))
    else:
        make_short_lived(Path(sys.argv[1]).absolute())
