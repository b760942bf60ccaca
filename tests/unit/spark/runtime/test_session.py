import pytest

from regulus.spark.runtime.session import jvm_settings

DRIVER, EXECUTOR = "spark.driver.defaultJavaOptions", "spark.executor.defaultJavaOptions"


def test_a_jvm_of_ours_gets_a_collector_and_checks_what_it_reads_of_arrow(tmp_path):
    settings = jvm_settings({"SPARK_CONF_DIR": str(tmp_path)}, {"spark.driver.extraJavaOptions": "-Da=b"})
    assert settings == dict.fromkeys((DRIVER, EXECUTOR), "-XX:+UseParallelGC")
    assert jvm_settings({"SPARK_CONF_DIR": str(tmp_path)}, {}, "-Da=b")[DRIVER] == "-XX:+UseParallelGC -Da=b"


@pytest.mark.parametrize("place", ["JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "settings", "spark-defaults.conf", "home"])
def test_a_collector_of_the_user_is_the_only_one(tmp_path, place):
    """Java does not start with two."""
    option, environment, settings = "-XX:+UseZGC", {"SPARK_CONF_DIR": str(tmp_path)}, {}
    if place == "settings":
        settings = {"spark.driver.extraJavaOptions": option}
    elif place == "spark-defaults.conf":
        (tmp_path / place).write_text(f"spark.driver.extraJavaOptions {option}\n")
    elif place == "home":
        (tmp_path / "conf").mkdir()
        (tmp_path / "conf" / "spark-defaults.conf").write_text(f"spark.driver.extraJavaOptions {option}\n")
        environment = {"SPARK_HOME": str(tmp_path)}
    else:
        environment[place] = option
    assert jvm_settings(environment, settings) == {}
    assert jvm_settings(environment, settings, "-Da=b") == {DRIVER: "-Da=b"}


@pytest.mark.spark
def test_the_jvm_gets_our_options_beside_the_users(spark):
    runtime = spark.sparkContext._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean()
    arguments = list(runtime.getInputArguments())
    assert not [each for each in arguments if "unsafe_memory_access" in each]
    assert [each for each in arguments if each.startswith("-XX:+Use") and each.endswith("GC")] == ["-XX:+UseParallelGC"]
    assert any(each.startswith("-Dderby.stream.error.file=") for each in arguments)
