"""What goes and what stays, from facts alone."""

from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regulus.model.retention_rules import ArchiveGate, ArchiveGatePolicy, RetentionRules
from regulus.store.retention import LogFile, RetentionFacts, RetentionPlan, Space, decide, full_remark

HOUR = 3_600_000
NOON = int(datetime(2026, 11, 21, 12, 30).timestamp() * 1000)
FOUR = int(datetime(2026, 11, 21, 4, 59).timestamp() * 1000)
SIZE = 4096
DROP = {"archive_gate": ArchiveGate.on, "archive_gate_policy": ArchiveGatePolicy.drop_and_report}
GATE = {"archive_gate": ArchiveGate.on}


def facts(ages_hours: list[float], ratio: float = 0.5, *, now_ms: int = NOON, queue_ratio: float | None = None,
          archived: int = -1, settled: int = 1 << 40, copied: int = 1 << 62,
          forcible: int = 1 << 62) -> RetentionFacts:
    files = [LogFile(number * SIZE, (number + 1) * SIZE, now_ms - int(age * HOUR))
             for number, age in enumerate(ages_hours)]
    return RetentionFacts(log_ratio=ratio, queue_ratio=ratio if queue_ratio is None else queue_ratio, files=files,
                          settled_offset=settled, archived_offset=archived, copied_offset=copied,
                          forcible_offset=forcible)


def plan_of(seen: RetentionFacts, *, was_full: bool = False, is_ordered: bool = False, now_ms: int = NOON,
            **rules: Any) -> RetentionPlan:
    return decide(RetentionRules(**rules), seen, was_full=was_full, is_ordered=is_ordered, now_ms=now_ms)


def count(plan: RetentionPlan) -> int:
    return len(plan.files)


def test_expired_files_go_at_the_hour_only() -> None:
    ages = [100, 80, 72, 71.9, 1]
    assert count(plan_of(facts(ages))) == 0
    assert count(plan_of(facts(ages, now_ms=FOUR), now_ms=FOUR)) == 3
    assert count(plan_of(facts(ages), delete_when="03;12")) == 3
    assert count(plan_of(facts(ages), delete_when="03;12", file_reserved_time=80)) == 2


@pytest.mark.parametrize(("age_ms", "goes"), [(72 * HOUR - 1, False), (72 * HOUR, True), (72 * HOUR + 1, True)])
def test_a_file_goes_at_its_very_age(age_ms: int, goes: bool) -> None:
    seen = RetentionFacts(log_ratio=0.5, queue_ratio=0.5, files=[LogFile(0, SIZE, FOUR - age_ms)],
                          settled_offset=SIZE)
    assert count(plan_of(seen, now_ms=FOUR)) == goes


def test_an_operator_is_obeyed_at_any_hour() -> None:
    assert count(plan_of(facts([100, 80, 1]), is_ordered=True)) == 2
    assert count(plan_of(facts([1, 1]), is_ordered=True)) == 0


def test_a_young_file_keeps_all_behind_it() -> None:
    assert count(plan_of(facts([1, 100, 100]), is_ordered=True)) == 0


@pytest.mark.parametrize(("ratio", "space", "expired", "young", "is_full"), [
    (0.75, Space.PLENTY, 0, 0, False), (0.76, Space.SCARCE, 2, 0, False), (0.85, Space.SCARCE, 2, 0, False),
    (0.86, Space.TIGHT, 2, 2, False), (0.90, Space.TIGHT, 2, 2, False), (0.91, Space.NONE, 2, 2, True),
    (-1.0, Space.SCARCE, 2, 0, False)])
@pytest.mark.parametrize("is_queue_disk", [False, True])
def test_watermarks_of_either_disk(ratio: float, space: Space, expired: int, young: int, is_full: bool,
                                   is_queue_disk: bool) -> None:
    def seen(age: float) -> RetentionFacts:
        return facts([age, age], *((0.1,) if is_queue_disk else (ratio,)),
                     queue_ratio=ratio if is_queue_disk else 0.1)
    old, new = plan_of(seen(100)), plan_of(seen(1))
    assert (old.space, count(old), count(new), old.is_full) == (space, expired, young, is_full)


def test_a_full_disk_takes_messages_again_only_with_some_room() -> None:
    assert not plan_of(facts([], 0.90)).is_full
    assert plan_of(facts([], 0.90), was_full=True).is_full
    assert plan_of(facts([], 0.86), was_full=True).is_full
    assert not plan_of(facts([], 0.85), was_full=True).is_full


def test_nothing_goes_before_its_time_where_that_is_forbidden() -> None:
    assert count(plan_of(facts([100, 1], 0.95), clean_file_forcibly_enable=False)) == 1
    assert plan_of(facts([1], 0.95), clean_file_forcibly_enable=False).is_full


def test_a_pass_is_limited() -> None:
    assert count(plan_of(facts([100] * 30, 0.95))) == 10
    assert count(plan_of(facts([100] * 30, 0.95), delete_file_batch_max=3)) == 3


def test_what_is_not_on_disk_or_not_dispatched_stays() -> None:
    assert count(plan_of(facts([100] * 5, 0.95, settled=3 * SIZE - 1))) == 2


@pytest.mark.parametrize("ratio", [0.5, 0.80, -1.0])
def test_what_a_slave_needs_stays_until_the_disk_is_full(ratio: float) -> None:
    kept = plan_of(facts([100] * 5, ratio, copied=2 * SIZE + 1), is_ordered=True)
    assert (count(kept), kept.waits_for_slaves, kept.passes_slaves) == (2, True, False)
    free = plan_of(facts([100] * 5, ratio, copied=5 * SIZE), is_ordered=True)
    assert (count(free), free.waits_for_slaves, free.passes_slaves) == (5, False, False)


@pytest.mark.parametrize("ratio", [0.86, 0.95])
def test_a_full_disk_waits_for_no_slave(ratio: float) -> None:
    gone = plan_of(facts([1] * 5, ratio, copied=2 * SIZE + 1))
    assert (count(gone), gone.waits_for_slaves, gone.passes_slaves) == (5, False, True)
    held = plan_of(facts([1] * 5, ratio, copied=2 * SIZE + 1, archived=SIZE), **GATE)
    assert (count(held), held.waits_for_archive, held.passes_slaves) == (1, True, False)


@pytest.mark.parametrize("ratio", [0.86, 0.95])
def test_a_slave_keeps_what_its_master_has_and_is_not_expired(ratio: float) -> None:
    ages = [100, 80, 1, 1, 1]
    assert [count(plan_of(facts(ages, ratio, forcible=begin * SIZE))) for begin in (0, 2, 3, 4)] == [2, 2, 3, 4]
    assert count(plan_of(facts(ages, ratio, forcible=-1))) == 2
    assert count(plan_of(facts(ages, ratio))) == 5
    assert plan_of(facts(ages, 0.95, forcible=0)).is_full


def test_the_gate_keeps_what_is_not_archived() -> None:
    assert count(plan_of(facts([100] * 5), is_ordered=True, **GATE)) == 0
    kept = plan_of(facts([100] * 5, archived=3 * SIZE + 1), is_ordered=True, **GATE)
    assert (count(kept), kept.waits_for_archive) == (3, False)
    assert count(plan_of(facts([100] * 5, archived=3 * SIZE + 1), is_ordered=True)) == 5


def test_a_closed_gate_refuses_sends_in_the_end() -> None:
    tight = plan_of(facts([1] * 5, 0.88, archived=SIZE), **GATE)
    assert (count(tight), tight.waits_for_archive, tight.is_full, tight.dropped) == (1, True, False, ())
    full = plan_of(facts([1] * 5, 0.95, archived=SIZE), **GATE)
    assert (count(full), full.waits_for_archive, full.is_full, full.dropped) == (1, True, True, ())


def test_an_opening_gate_says_what_is_lost() -> None:
    assert count(plan_of(facts([100] * 3, 0.80, archived=SIZE), **DROP)) == 1
    dropping = plan_of(facts([1] * 3, 0.86, archived=SIZE + 10), **DROP)
    assert (count(dropping), dropping.waits_for_archive) == (3, False)
    assert dropping.dropped == ((SIZE + 10, 2 * SIZE), (2 * SIZE, 3 * SIZE))
    assert plan_of(facts([1], 0.86), **DROP).dropped == ((0, SIZE),)


def test_a_refusal_names_cause_and_mend() -> None:
    rules, seen = RetentionRules(**GATE), facts([1], 0.93, archived=-1)     # type: ignore[arg-type]
    text = full_remark(rules, seen, plan_of(seen, **GATE))
    for part in ("93 %", "diskSpaceWarningLevelRatio 90 %", "up to 0", "run the archive", "drop_and_report", "85 %"):
        assert part in text
    assert "make room" in full_remark(RetentionRules(), seen, plan_of(seen))


ratios = st.integers(-1, 100).map(lambda percent: percent / 100 if percent >= 0 else -1.0)


@given(ages=st.lists(st.integers(0, 200), max_size=20), ratio=ratios, queue_ratio=ratios,
       archived=st.integers(-1, 90_000),
       settled=st.integers(0, 90_000), gate=st.sampled_from(ArchiveGate), policy=st.sampled_from(ArchiveGatePolicy),
       forcibly=st.booleans(), was_full=st.booleans(), is_ordered=st.booleans(), now_ms=st.sampled_from([NOON, FOUR]))
def test_whatever_the_facts(ages: list[float], ratio: float, queue_ratio: float, archived: int, settled: int,
                            gate: ArchiveGate, policy: ArchiveGatePolicy, forcibly: bool, was_full: bool,
                            is_ordered: bool, now_ms: int) -> None:
    """Only the oldest go, each for a reason, none that is needed; what is not archived goes only as told, and never
    while sends could be refused instead."""
    seen = facts(ages, ratio, now_ms=now_ms, queue_ratio=queue_ratio, archived=archived, settled=settled)
    plan = plan_of(seen, was_full=was_full, is_ordered=is_ordered, now_ms=now_ms, archive_gate=gate,
                   archive_gate_policy=policy, clean_file_forcibly_enable=forcibly)
    assert list(plan.files) == list(seen.files[:len(plan.files)])
    assert len(plan.files) <= 10
    used = max(ratio, queue_ratio)
    first_kept = next(iter(seen.files[len(plan.files):10]), None)
    if plan.is_due and first_kept is not None:
        # Nothing stays without a reason.
        is_young = now_ms - first_kept.modified_ms < 72 * HOUR and not (forcibly and used > 0.85)
        is_gated = gate is ArchiveGate.on and first_kept.end > archived
        is_kept_for_the_archive = is_gated and not (policy is ArchiveGatePolicy.drop_and_report and used > 0.85)
        assert is_young or first_kept.end > settled or is_kept_for_the_archive
    assert plan.is_due == (is_ordered or now_ms == FOUR or used > 0.75 or min(ratio, queue_ratio) < 0)
    for file in plan.files:
        assert now_ms - file.modified_ms >= 72 * HOUR or (forcibly and used > 0.85)
        assert file.end <= settled
        is_lost = gate is ArchiveGate.on and file.end > archived
        assert is_lost == any(begin >= file.start and end == file.end for begin, end in plan.dropped)
        if is_lost:
            assert policy is ArchiveGatePolicy.drop_and_report
            assert used > 0.85
    if used > 0.90:
        assert plan.is_full
    if used <= 0.85:
        assert not plan.is_full
    if not plan.is_due:
        assert not plan.files
