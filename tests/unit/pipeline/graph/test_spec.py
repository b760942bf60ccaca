"""A spec is checked before any Java starts, and what is wrong with it is one sentence."""

from pathlib import Path

import pytest

from regulus.errors import PipelineError
from regulus.pipeline.graph.spec import local_directory, read_spec, storage_url

GOOD = """\
name: sums
storage: file:///var/lib/sums
database: shop
configuration:
  spark.sql.ansi.enabled: "true"
libraries:
  - glob:
      include: tables/**
  - glob:
      include: more.sql
"""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "tables" / "deep").mkdir(parents=True)
    (tmp_path / "tables" / "b.py").write_text("")
    (tmp_path / "tables" / "deep" / "a.py").write_text("")
    (tmp_path / "tables" / "__pycache__").mkdir()
    (tmp_path / "tables" / "__pycache__" / "b.pyc").write_text("")
    (tmp_path / "more.sql").write_text("")
    (tmp_path / "spark-pipeline.yml").write_text(GOOD)
    return tmp_path


def test_a_spec_is_found_in_its_directory_and_its_files_are_listed(directory: Path) -> None:
    spec = read_spec(directory)
    assert spec == read_spec(directory / "spark-pipeline.yml")
    assert (spec.name, spec.storage, spec.database, spec.catalog) == ("sums", "file:///var/lib/sums", "shop", None)
    assert spec.configuration == {"spark.sql.ansi.enabled": "true"}
    assert [str(file.relative_to(directory)) for file in spec.libraries] == ["tables/b.py", "tables/deep/a.py",
                                                                            "more.sql"]


def test_another_storage_takes_the_place_of_the_specs(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(directory)
    assert read_spec(directory, "here/it is").storage == (directory / "here" / "it is").as_uri()
    assert read_spec(directory, "s3://bucket/sums/").storage == "s3://bucket/sums"


def test_the_directory_of_a_storage_is_known_where_it_is_on_this_machine(tmp_path: Path) -> None:
    assert local_directory(storage_url(str(tmp_path))) == tmp_path
    assert local_directory("s3://bucket/sums") is None
    assert local_directory("file://elsewhere/sums") is None


@pytest.mark.parametrize(("change", "sentence"), [
    (("name: sums", "nmae: sums"), "unknown field 'nmae': did you mean 'name'?"),
    (("name: sums\n", ""), "has no 'name'"),
    (("name: sums", "name: 7"), "'name' is 7; write a text, in quotes"),
    (("storage: file:///var/lib/sums\n", ""), "has no 'storage': write the URL of a directory"),
    (('"true"', "true"), "has spark.sql.ansi.enabled: True; Spark takes texts, so put it in quotes"),
    (("include: tables/**", "include: tables/*.py"), "Spark takes the path of a file, or of a folder followed by /**"),
    (("include: tables/**", "include: nothing/**"), "there is no file below"),
    (("include: more.sql", "include: less.sql"), "names 'less.sql', and there is no file"),
    (("include: more.sql", "include: spark-pipeline.yml"), "tables are defined in .py and .sql files"),
    (("  - glob:\n      include: more.sql\n", "  - more.sql\n"), "'libraries' has 'more.sql'; write - glob:"),
    (("name: sums", "name: [sums"), "is no YAML"),
])
def test_what_is_wrong_is_one_sentence(directory: Path, change: tuple[str, str], sentence: str) -> None:
    path = directory / "spark-pipeline.yml"
    path.write_text(GOOD.replace(*change))
    with pytest.raises(PipelineError) as caught:
        read_spec(path)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_or_holds_a_list(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="there is no pipeline spec"):
        read_spec(tmp_path / "spark-pipeline.yml")
    with pytest.raises(PipelineError, match="holds neither"):
        read_spec(tmp_path)
    (tmp_path / "spark-pipeline.yml").write_text("- 1\n")
    with pytest.raises(PipelineError, match=r"must be a table of name, storage, .* and is a list"):
        read_spec(tmp_path)
