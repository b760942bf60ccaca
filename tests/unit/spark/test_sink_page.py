"""The examples of docs/pipeline/sink.md run."""

import re
from pathlib import Path

import pytest

from .sink.support import messages_of

PAGE = (Path(__file__).parents[3] / "docs" / "pipeline" / "sink.md").read_text(encoding="utf-8")


@pytest.mark.spark
@pytest.mark.once
def test_the_examples_run(spark, regulus_server, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("one\ntwo\n")
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 6
    names = {"spark": spark}
    for block in blocks:
        exec(block.replace("127.0.0.1:9876", regulus_server.name_server_address).replace("/data", str(tmp_path)), names)

    def bodies(topic: str) -> list[bytes]:
        return sorted(message.body for message in messages_of(regulus_server, topic))

    assert bodies("orders") == [b'{"price":1.5}', b'{"price":2.0}']
    assert bodies("lines") == bodies("ledger") == [b"one", b"two"]
    assert len(messages_of(regulus_server, "nightly")) == 5000
    assert bodies("counts") == [b"10"] * 100
    assert {message.properties["DEDUP_KEY"] for message in messages_of(regulus_server, "counts")} == {
        str(number) for number in range(100)}


def test_the_page_names_every_option_and_column():
    from regulus.spark.sink.options import KNOWN_SINK_OPTIONS, SINK_COLUMNS, DeliveryGuarantee

    named = (*SINK_COLUMNS, *KNOWN_SINK_OPTIONS, *DeliveryGuarantee)
    assert [name for name in named if f"`{name}`" not in PAGE] == []
