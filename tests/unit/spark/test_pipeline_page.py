"""The examples of docs/pipeline.md run."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from regulus.model.message import MessageExt
from regulus.testing.running_server import ServerThread
from tests.unit.spark.conftest import send_orders

PAGE = (Path(__file__).parents[3] / "docs" / "pipeline.md").read_text(encoding="utf-8")
STORE_IN_PAGE = "/var/lib/regulus/store"
NAME_SERVER_IN_PAGE = "127.0.0.1:9876"
DATA_IN_PAGE = "/data"


@pytest.fixture
def live_server(tmp_path: Path) -> Iterator[ServerThread]:
    with ServerThread(tmp_path / "live") as server:
        yield server


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.spark
@pytest.mark.once
def test_the_examples_run(spark, make_store, live_server, capfd, tmp_path):
    def message(number: int, topic: str, **properties: str) -> MessageExt:
        return MessageExt(topic, b'{"id":"%d","price":1.5}' % number, {"KEYS": f"order-{number}", **properties})

    store = str(make_store([message(number, "orders", TAGS=f"Tag{number % 2}") for number in range(5)]
                           + [message(9, "%DLQ%billing", RETRY_TOPIC="orders")]))
    send_orders(live_server, range(6))
    names = {"spark": spark, "store": store}
    python = blocks("python")
    assert len(python) == 6
    (tmp_path / "data" / "bad" / "orders").mkdir(parents=True)
    line = '{"queue_id":1,"queue_offset":7,"reason":"no record","topic":"orders"}\n'
    (tmp_path / "data" / "bad" / "orders" / "orders-broker-a-1-7.json").write_text(line)
    (tmp_path / "data" / "bad" / "orders" / "_orders-broker-a-1-8").write_text(line)
    for block in python:
        block = block.replace(STORE_IN_PAGE, store).replace(NAME_SERVER_IN_PAGE, live_server.name_server_address)
        exec(block.replace(DATA_IN_PAGE, str(tmp_path / "data")), names)
    assert names["orders"].first().price == 1.5
    assert (names["live"].count(), names["messages"].count(), names["gaps"].count()) == (6, 6, 0)
    assert [(row.queue_offset, row.reason) for row in names["bad"].collect()] == [(7, "no record")]
    assert names["checked"].count() == 6
    assert spark.read.parquet(str(tmp_path / "data" / "orders")).count() == 6
    assert [queue.messages for queue in names["lag"](names["query"].lastProgress)] == [0, 0]
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
