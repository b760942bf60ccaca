"""The demo's databases: what suits each."""

import pytest

from regulus.cli.demo.databases import BOARD_PAGE_SIZE, airports, departure_board


@pytest.mark.parametrize(("opened", "page_size"), [(airports, 4_096), (departure_board, BOARD_PAGE_SIZE)])
def test_pages_are_as_large_as_its_rows_want_them(tmp_path, opened, page_size):
    for _ in range(2):      # made, and opened again
        engine = opened(tmp_path)
        with engine.connect() as connection:
            assert connection.exec_driver_sql("PRAGMA page_size").scalar_one() == page_size
            assert connection.exec_driver_sql("PRAGMA journal_mode").scalar_one() == "wal"
        engine.dispose()
