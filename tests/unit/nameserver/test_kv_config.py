import json

import pytest

from regulus.errors import HeaderError
from regulus.nameserver.kv_config import KvConfig
from regulus.wire import encoded_table


def test_a_document_is_of_the_moment_at_which_it_was_made() -> None:
    config = KvConfig()
    config.put("NS", "k", "v")
    document = config.document()
    config.put("NS", "later", "w")
    config.put("Other", "k", "w")
    assert json.loads(encoded_table.text(document)) == {"configTable": {"NS": {"k": "v"}}}


def test_each_change_is_counted() -> None:
    config = KvConfig()
    config.delete("NS", "absent")
    assert config.changes == 0
    config.put("NS", "k", "v")
    config.delete("NS", "k")
    assert config.changes == 2


def test_what_was_saved_is_loaded() -> None:
    config = KvConfig()
    config.put("NS", "k", "ä=1\n")
    loaded = KvConfig()
    loaded.load_document(encoded_table.text(config.document()))
    assert loaded.namespace("NS") == {"k": "ä=1\n"}
    assert loaded.changes == 0


@pytest.mark.parametrize("text", ["", "[]", "{", '{"configTable":[]}', '{"configTable":{"NS":1}}'])
def test_a_damaged_document_is_refused(text: str) -> None:
    with pytest.raises(HeaderError):
        KvConfig().load_document(text)


def test_a_namespace_is_a_copy() -> None:
    config = KvConfig()
    config.put("NS", "k", "v")
    table = config.namespace("NS")
    assert table is not None
    table["k"] = "other"
    assert config.get("NS", "k") == "v"
