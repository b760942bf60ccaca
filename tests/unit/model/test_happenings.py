from regulus.model.happenings import NAME_LENGTH_MAX, NAMES_MAX, FirstNames, Happenings


def names(count: int) -> FirstNames:
    made = FirstNames()
    for number in range(count):
        made.add(f"T{number}")
    return made


def test_a_few_are_named_and_the_others_counted() -> None:
    assert str(names(2)) == "T0, T1"
    assert str(names(NAMES_MAX)) == "T0, T1, T2, T3, T4"
    assert str(names(122)) == "T0, T1, T2, T3, T4 and 117 more"


def test_merged_they_are_as_if_they_had_come_one_after_the_other() -> None:
    merged = names(4)
    merged.merge(names(3))
    assert str(merged) == "T0, T1, T2, T3, T0 and 2 more"


def test_a_long_name_is_cut() -> None:
    one = FirstNames()
    one.add("x" * 100_000)
    assert one.names == ["x" * NAME_LENGTH_MAX]


def test_what_is_taken_is_gone_and_may_be_put_elsewhere() -> None:
    here, there = Happenings(), Happenings()
    here.note("topics made", "A")
    there.note("topics made", "B")
    there.put(here.take())
    assert here.take() == {}
    assert {kind: str(names) for kind, names in there.take().items()} == {"topics made": "B, A"}
