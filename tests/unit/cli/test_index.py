from click.testing import CliRunner

from regulus.cli.index import index
from tests.stores import fill, open_store


def test_rebuild(tmp_path):
    store = open_store(tmp_path / "store")
    fill(store, 40)
    store.close()
    words = ["rebuild", "--store", tmp_path / "store", "--output", tmp_path / "out", "--queue-file-size", 200,
             "--hash-slots", 16, "--index-entries", 32, "--cores", 0]
    result = CliRunner().invoke(index, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert "40 units in 1 queues" in result.output
    made = {path.name: path.read_bytes() for path in (tmp_path / "out" / "consumequeue" / "TopicA" / "0").iterdir()}
    kept = {path.name: path.read_bytes() for path in (tmp_path / "store/consumequeue/TopicA/0").iterdir()}
    assert made == {name: data for name, data in kept.items() if data.strip(b"\0")}
