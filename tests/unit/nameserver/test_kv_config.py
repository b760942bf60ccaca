import json

import pytest

from regulus.errors import HeaderError
from regulus.nameserver.kv_config import KvConfig


def test_a_document_is_taken_once_for_each_change() -> None:
    config = KvConfig()
    assert config.take_changed_document() is None
    config.put("NS", "k", "v")
    text = config.take_changed_document()
    assert text is not None
    assert json.loads(text) == {"configTable": {"NS": {"k": "v"}}}
    assert config.take_changed_document() is None
    config.delete("NS", "absent")
    assert config.take_changed_document() is None
    config.delete("NS", "k")
    assert config.take_changed_document() is not None


def test_what_was_saved_is_loaded() -> None:
    config = KvConfig()
    config.put("NS", "k", "ä=1\n")
    loaded = KvConfig()
    loaded.load_document(config.take_changed_document() or "")
    assert loaded.namespace("NS") == {"k": "ä=1\n"}
    assert loaded.take_changed_document() is None


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
