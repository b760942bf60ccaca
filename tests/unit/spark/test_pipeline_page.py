"""The examples of docs/pipeline.md run."""

import re
from pathlib import Path

import pytest

from regulus.model.message import MessageExt

pytestmark = pytest.mark.spark
PAGE = (Path(__file__).parents[3] / "docs" / "pipeline.md").read_text(encoding="utf-8")
STORE_IN_PAGE = "/var/lib/regulus/store"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_the_examples_run(spark, make_store, capfd):
    def message(number: int, topic: str, **properties: str) -> MessageExt:
        return MessageExt(topic, b'{"id":"%d","price":1.5}' % number, {"KEYS": f"order-{number}", **properties})

    store = str(make_store([message(number, "orders", TAGS=f"Tag{number % 2}") for number in range(5)]
                           + [message(9, "%DLQ%billing", RETRY_TOPIC="orders")]))
    names = {"spark": spark, "store": store}
    python = blocks("python")
    assert len(python) == 6
    for block in python:
        exec(block.replace(STORE_IN_PAGE, store), names)
    assert names["orders"].first().price == 1.5
    sql = ";".join(blocks("sql")).replace(STORE_IN_PAGE, store)
    create, *queries = [query.strip() for query in sql.split(";") if query.strip()]
    spark.sql(create.replace("columns 'store_time,tags,body'", "columns 'topic,queue_id,queue_offset,store_time,tags'"))
    counts, holes = (spark.sql(query).collect() for query in queries)
    assert [tuple(row)[:2] for row in counts] in ([("Tag0", 3), ("Tag1", 2)], [("Tag1", 2), ("Tag0", 3)])
    assert holes == []
    spark.catalog.dropTempView("orders")


def test_the_page_names_every_option_and_column():
    from regulus.spark.options import KNOWN_OPTIONS
    from regulus.spark.table_schema import COLUMNS

    assert [name for name in (*COLUMNS, *KNOWN_OPTIONS) if name != "path" and f"`{name}`" not in PAGE] == []
