"""The examples of docs/pipeline/tables.md run."""

import re
from pathlib import Path

import pytest

from regulus.client.sync import Admin
from regulus.model.topics import TopicConfig
from regulus.spark.table_schema import TABLES
from tests.unit.spark.conftest import order

PAGE = (Path(__file__).parents[3] / "docs" / "pipeline" / "tables.md").read_text(encoding="utf-8")


@pytest.mark.spark
@pytest.mark.once
def test_the_examples_run(spark, make_store, regulus_server, capfd):
    store = str(make_store([order(number) for number in range(4)]))
    with Admin(regulus_server.name_server_address) as admin:
        admin.create_topic(TopicConfig(topic_name="orders"))
    names = {"spark": spark}
    for block in re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL):
        exec(block.replace("/var/lib/regulus/store", store)
             .replace("127.0.0.1:9876", regulus_server.name_server_address), names)
    spark.conf.unset("spark.sql.python.filterPushdown.enabled")
    counts = names["queues"].groupBy("topic").sum("message_count").collect()
    assert [tuple(row) for row in counts] == [("orders", 4)]


def test_the_page_names_every_table_and_column():
    named = [name for table, columns in TABLES.items() if table not in ("messages", "trace") for name in columns]
    assert [name for name in (*TABLES, *named) if f"`{name}`" not in PAGE] == []
