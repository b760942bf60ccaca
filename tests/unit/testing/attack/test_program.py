"""Kinds by name, rounds by seed, and an exit status that says whether there was a finding."""

from typing import Any

import pytest

from regulus.testing.attack import program
from regulus.testing.attack.field import FINDINGS_MAX, Field
from regulus.testing.attack.program import KINDS, campaign, kinds_named, main, play


async def quiet(field: Field) -> None:
    field.note = str(field.chance.random())
    assert (field.home / "nothing").exists() is False


async def loud(field: Field) -> None:
    for number in range(FINDINGS_MAX + 5):
        field.find(f"finding {number}")


async def breaking_off(field: Field) -> None:
    raise ConnectionResetError("gone")


@pytest.fixture
def kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "KINDS", {"quiet": quiet, "loud": loud, "loud-other": loud, "breaking": breaking_off})


def test_a_first_part_names_all_of_its_kinds() -> None:
    assert kinds_named([]) == list(KINDS)
    assert kinds_named(["kill"]) == ["kill"]
    assert kinds_named(["ids", "ids-names"]) == ["ids-halves", "ids-places", "ids-names"]
    assert kinds_named(["frames"]) == ["frames", "frames-unfinished"]
    with pytest.raises(ValueError, match="'corr' is not a kind of attack; there are kill, "):
        kinds_named(["corr"])


def test_a_seed_plays_its_round_again(kinds: Any) -> None:
    assert play("quiet", 7, 0).note == play("quiet", 7, 0).note != play("quiet", 8, 0).note


def test_a_broken_broker_says_the_same_only_so_often(kinds: Any) -> None:
    assert play("loud", 1, 0).findings == tuple(f"finding {number}" for number in range(FINDINGS_MAX))


def test_a_round_that_breaks_off_is_a_finding(kinds: Any) -> None:
    assert play("breaking", 1, 0).findings == ("the round broke off: ConnectionResetError: gone",)


def test_each_kind_is_played_once_at_least_and_the_next_round_has_the_next_seed(kinds: Any) -> None:
    lines: list[str] = []
    rounds = campaign(["quiet", "loud"], 40, 0, None, lines.append)
    assert [(played.kind, played.seed, bool(played.findings)) for played in rounds] == [
        ("quiet", 40, False), ("loud", 40, True)]
    assert lines[0].split()[:2] == ["quiet", "40"]
    assert lines[-1].strip() == "again: python -m regulus.testing.attack --kind loud --seed 40"
    more = campaign(["quiet"], 40, 0.2, None, lines.append)
    assert [played.seed for played in more] == list(range(40, 40 + len(more)))
    assert len(more) > 1


def test_a_finding_is_the_exit_status(kinds: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--kind", "quiet", "--seed", "1", "--seconds", "0"]) == 0
    assert capsys.readouterr().out.endswith("1 rounds, 0 with findings\n")
    assert main(["--kind", "quiet", "--kind", "loud", "--seed", "1", "--seconds", "0"]) == 1
    assert capsys.readouterr().out.endswith("3 rounds, 2 with findings\n")
    with pytest.raises(SystemExit):
        main(["--kind", "nonsense"])
