"""A start that cuts the log where it is wanted is killed, or the power is cut, at each of its steps."""

from pathlib import Path

import pytest
from tests.stores import bodies, fill, open_store

from regulus.store.log_parting import RestingLog
from regulus.store.wanted_cut import NAME, WantedCut, WantedCutFile
from regulus.testing.forgetful_disk import EVERYTHING, SURE_ONLY, ForgetfulDisk, SyncPoint, rebooted

COUNT = 40
DELETED = 3
SEEDS = (SURE_ONLY, EVERYTHING, 2, 3, 4, 5)


def bodies_kept(root: Path) -> set[bytes]:
    """The first bytes of each body that lies in a folder of cuts."""
    data = b"".join([path.read_bytes() for path in (root / "cut").rglob("*") if path.is_file()])
    return {name for number in range(COUNT) if (name := f"{number:08d}".encode()) + b"...." in data}


@pytest.mark.once
@pytest.mark.parametrize("number", [9, 13, 18, 36])
def test_nothing_that_is_cut_is_lost_and_the_next_start_ends_what_was_begun(tmp_path: Path, number: int) -> None:
    root = tmp_path / "store"
    store = open_store(root)
    fill(store, DELETED, topic="Old")
    store.delete_topic("Old")
    expected = [message.body for message in fill(store, COUNT, size=300)]
    store.close()
    log = RestingLog(root / "commitlog")
    begin = [begin for start in log.starts for begin, _, is_blank in log.units(start) if not is_blank][DELETED + number]
    cut_here = {body[:8] for body in expected[number:]}
    copies: list[Path] = []
    with ForgetfulDisk(root) as power:
        def crash(point: SyncPoint) -> None:
            for seed in SEEDS:
                copies.append(power.crash(seed, tmp_path / f"copy-{point.number}-{seed}"))

        WantedCutFile(root, root / "commitlog").save(
            WantedCut(begin=begin, end=log.behind(begin).end, records=COUNT - number, reason="a test"))
        power.on_sync = crash
        store = open_store(root)
        store.close()
        power.on_sync = None
    assert len(copies) > 5 * len(SEEDS)
    for copy in [*copies, root]:
        with rebooted():
            store = open_store(copy)
        assert store.commit_log_max_offset() == begin, copy
        assert bodies(store) == expected[:number], copy
        assert bodies(store, "Old") == [], copy
        assert not (copy / NAME).exists(), copy
        assert bodies_kept(copy) >= cut_here, copy
        fill(store, 3, first=number, size=300)
        store.close()
        store = open_store(copy)
        assert [body[:8] for body in bodies(store)] == [body[:8] for body in expected[:number + 3]], copy
        store.close()
