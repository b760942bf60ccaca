"""An archive with all that has made other programs stumble: topics of digits and of signs, several days."""

from pathlib import Path

from tests.archives import archive_store
from tests.stores import NOW, a_message, dispatch, open_store

TOPICS = ("orders", "0123", "_hidden", "%RETRY%group", "a-b")
DAYS = 2
ROWS = 2 * DAYS * len(TOPICS)


def make_archive(folder: Path) -> Path:
    store = open_store(folder / "store")
    for day in range(DAYS):
        for topic in TOPICS:
            for number in range(2):
                message = a_message(topic, b"body %d" % number, UNIQ_KEY=f"U{number}", KEYS="k", extra="x")
                store.append(message, NOW + 86_400_000 * day + number)
    dispatch(store)
    store.close()
    archive_store(folder / "store", folder / "archive")
    return folder / "archive"
