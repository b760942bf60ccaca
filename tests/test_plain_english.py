"""Each rule finds what it should, and lets the neighbouring sentence pass."""

from pathlib import Path

import pytest

from tests import plain_english

SENTENCES = {
    "begins with Of": ("Of the stored body.", "Bytes of the stored body."),
    "begins with The same": ("The same for a batch.", "Does the same for a batch."),
    "begins with So": ("So it waits.", "Sockets that wait."),
    "begins with As": ("As how many it counts.", "Ask for the count."),
    "begins with Those": ("Those that wait.", "Messages that wait, and those that do not."),
    "begins with Who": ("Who asked first.", "Whole records of the log."),
    "begins with All that": ("All that a start reads.", "All files that a start reads."),
    "long first sentence": (" ".join(["word"] * 31) + ".", " ".join(["word"] * 30) + ". " + " ".join(["word"] * 30)),
    "anew": ("Connect anew.", "Connect again to a new address."),
    "beside": ("It is kept beside the log.", "Besides the log, it is kept next to the index."),
    "let go": ("The oldest is let go.", "Let goals pass."),
    "told": ("The client is told.", "A digit tells whether it was sold."),
    "who for a thing": ("A broker who answers.", "A broker that answers an operator who asks."),
    "whoever": ("It answers whoever asks.", "The client that asks, however often."),
    "nobody": ("Nobody waits.", "No client waits."),
    "front": ("The front refuses.", "The front of the line, in front of which nothing waits."),
    "is none": ("A name that is none.", "None if there\n    is none."),
    "is no": ("It is no record.", "It is no longer a record, and there\n    is no other."),
    "what is gone": ("Report what is gone.", "Report which files are gone."),
    "sees to it": ("It sees to it that it ends.", "It makes sure that it ends."),
    "stands": ("The number stands in the header.", "The number stands for a standard header."),
    "lies": ("It lies in the file.", "It lies within the file."),
    "behind for after": ("The position behind it.", "A slave that is behind its master."),
    "mend": ("It is mended.", "It is amended."),
    "asker": ("The asker waits.", "A masker waits."),
    "hears": ("The client hears it.", "The client shears it."),
    "go on": ("It goes on.", "It goes only once."),
    "in vain": ("It asks in vain.", "It asks a vain thing."),
    "but for": ("All but for the last.", "Not now, but formerly."),
    "so many": ("It sends so many at once.", "There are so many that it stops."),
    "deed": ("The deed is done.", "It is done indeed."),
}


def names(source: str) -> list[str]:
    return [finding.rule for finding in plain_english.findings_in(source)]


@pytest.mark.parametrize("rule", SENTENCES)
def test_a_rule_finds_its_phrase_and_nothing_else(rule: str) -> None:
    found, passed = SENTENCES[rule]
    assert names(f'"""{found}"""') == [rule]
    assert names(f'"""{passed}"""') == []


def test_each_rule_has_its_sentences() -> None:
    rules = [rule.name for rule in (*plain_english.OPENINGS, *plain_english.PHRASES)]
    assert sorted([*rules, "long first sentence"]) == sorted(SENTENCES)


@pytest.mark.parametrize("source", [
    '"""It begins anew."""',
    'class A:\n    """It begins anew."""',
    'class A:\n    size: int = 0\n    """It begins anew."""',
    'def a():\n    """It begins anew."""',
    'async def a():\n    """It begins anew."""',
    'SIZE = 1\n"""It begins anew."""',
    "# It begins anew.",
    "a = 1   # it begins anew",
    'raise ValueError("it begins anew")',
    'raise ValueError(f"{a} begins anew at {b}") from None',
    'raise ValueError("it begins" if a else "it begins anew")',
    'raise Refused(code=1, remark="it begins anew")',
    'log.warning("%s begins anew", name)',
    'self._log.error("a" + "it begins anew")',
    'return refuse(1, "it begins anew")',
    'parser.add_argument("--a", help="it begins anew")',
])
def test_each_place_of_prose_is_read(source: str) -> None:
    assert names(source.replace("return ", "")) == ["anew"]


@pytest.mark.parametrize("source", [
    '"""Sets `anew` or `begin\nanew` again."""',
    '"""An example:\n\n    >>> anew = 1\n"""',
    'anew = "anew"',
    'properties["anew"] = 1',
    'raise ValueError(f"{anew} is empty")',
])
def test_code_is_not_prose(source: str) -> None:
    assert names(source) == []


def test_a_phrase_is_found_across_the_end_of_a_line_at_its_own_line() -> None:
    docstring = plain_english.findings_in('a = 1\n"""Waits.\n\nThen it lets\ngo of the file."""')
    assert [(finding.rule, finding.line) for finding in docstring] == [("let go", 4)]
    comment = plain_english.findings_in("a = 1\n# Then it lets\n# go of the file.")
    assert [(finding.rule, finding.line) for finding in comment] == [("let go", 2)]


def test_comments_of_different_lines_of_code_are_not_one_sentence() -> None:
    assert names("a = 1   # lets\nbcd = 1   # go") == []


def test_an_opening_is_a_matter_of_docstrings_alone() -> None:
    assert names("# So that it ends.") == []


def test_the_command_prints_findings_and_says_so_by_its_status(tmp_path: Path,
                                                                capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = tmp_path / "good.py", tmp_path / "bad.py"
    good.write_text('"""Fine."""')
    bad.write_text('"""Fine."""\n# done anew')
    assert plain_english.main([str(good)]) == 0
    assert capsys.readouterr().out == ""
    assert plain_english.main([str(tmp_path)]) == 1
    assert capsys.readouterr().out == f"{bad}:2: anew: done anew (write again, or from scratch)\n"


def test_a_path_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        plain_english.main([str(tmp_path / "missing")])
