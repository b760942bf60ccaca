"""What a pipeline's spec file says: Spark's own format (spark-pipeline.yml), checked before any Java starts."""

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from regulus.errors import PipelineError

SPEC_NAMES = ("spark-pipeline.yml", "spark-pipeline.yaml")
_FIELDS = ("name", "storage", "catalog", "database", "schema", "configuration", "libraries")
_DEFINITIONS = (".py", ".sql")
_FOLDER = "/**"
LIBRARY_FILES_MAX = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineSpec:
    """`storage` is a URL: tables, catalog and checkpoints go below it. `libraries` are the files that define tables."""

    path: Path
    name: str
    storage: str
    catalog: str | None
    database: str | None
    configuration: Mapping[str, str]
    libraries: tuple[Path, ...]


def read_spec(path: Path, storage: str | None = None) -> PipelineSpec:
    """The spec in a file, or in the directory that holds one. `storage` takes the place of what the file says.

    Raises PipelineError that names the file, the field and what is allowed.
    """
    import yaml

    path = _spec_file(path)
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise PipelineError(f"cannot read {path}: {error}") from error
    except yaml.YAMLError as error:
        raise PipelineError(f"{path} is no YAML: {' '.join(str(error).split())}") from error
    return parse_spec(content, path, storage)


def parse_spec(content: Any, path: Path, storage: str | None = None) -> PipelineSpec:
    """Raises PipelineError that names the file, the field and what is allowed."""
    if not isinstance(content, dict):
        raise PipelineError(f"{path} must be a table of {', '.join(_FIELDS)}, and is a {type(content).__name__}")
    for key in content:
        if key not in _FIELDS:
            near = get_close_matches(str(key), _FIELDS, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(_FIELDS)}"
            raise PipelineError(f"{path} has the unknown field {key!r}: {hint}")
    name = _text(content, "name", path)
    if not name:
        raise PipelineError(f"{path} has no 'name'")
    where = storage or _text(content, "storage", path)
    if not where:
        raise PipelineError(f"{path} has no 'storage': write the URL of a directory, such as file:///var/lib/{name}")
    return PipelineSpec(
        path=path,
        name=name,
        storage=storage_url(where),
        catalog=_text(content, "catalog", path) or None,
        database=_text(content, "database", path) or _text(content, "schema", path) or None,
        configuration=_configuration(content.get("configuration"), path),
        libraries=_libraries(content.get("libraries"), path),
    )


def storage_url(where: str) -> str:
    """A URL as it is; a path as the URL of the directory it names from here. Spark refuses a storage without scheme."""
    return where.rstrip("/") if urlsplit(where).scheme else Path(where).absolute().as_uri()


def local_directory(storage: str) -> Path | None:
    """The directory on this machine that a storage URL names; None when it is elsewhere."""
    parts = urlsplit(storage)
    return Path(parts.path) if parts.scheme == "file" and parts.netloc in ("", "localhost") else None


def _spec_file(path: Path) -> Path:
    if path.is_dir():
        found = [path / name for name in SPEC_NAMES if (path / name).is_file()]
        if len(found) != 1:
            what = f"both {' and '.join(SPEC_NAMES)}" if found else f"neither {' nor '.join(SPEC_NAMES)}"
            raise PipelineError(f"{path} holds {what}: name the file with --spec")
        return found[0].absolute()
    if not path.is_file():
        raise PipelineError(f"there is no pipeline spec {path}")
    return path.absolute()


def _text(content: Mapping[str, Any], field: str, path: Path) -> str:
    value = content.get(field)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise PipelineError(f"{path}: {field!r} is {value!r}; write a text, in quotes where YAML would take it for "
                            "something else")
    return value.strip()


def _configuration(value: Any, path: Path) -> Mapping[str, str]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise PipelineError(f"{path}: 'configuration' must be a table of Spark's settings")
    for key, setting in value.items():
        if not isinstance(key, str) or not isinstance(setting, str):
            raise PipelineError(f"{path}: 'configuration' has {key}: {setting!r}; Spark takes texts, so put it in "
                                "quotes")
    return dict(value)


def _libraries(value: Any, path: Path) -> tuple[Path, ...]:
    if not isinstance(value, list) or not value:
        raise PipelineError(f"{path}: 'libraries' must list where the tables are defined, such as "
                            "- glob: {include: transformations/**}")
    files: dict[Path, None] = {}
    for entry in value:
        try:
            pattern = entry["glob"]["include"]
        except (KeyError, TypeError):
            pattern = None
        if not isinstance(pattern, str):
            raise PipelineError(f"{path}: 'libraries' has {entry!r}; write - glob: {{include: transformations/**}}")
        files.update(dict.fromkeys(_matching(pattern, path)))
    if len(files) > LIBRARY_FILES_MAX:
        raise PipelineError(f"{path}: 'libraries' name {len(files)} files; {LIBRARY_FILES_MAX} are allowed")
    return tuple(files)


def _matching(pattern: str, path: Path) -> list[Path]:
    """The files of one entry, sorted: one file, or all that a folder holds at any depth."""
    is_folder = pattern.endswith(_FOLDER)
    named = pattern.removesuffix(_FOLDER)
    if any(sign in named for sign in "*?["):
        raise PipelineError(f"{path}: 'libraries' has {pattern!r}; Spark takes the path of a file, or of a folder "
                            f"followed by {_FOLDER}")
    place = path.parent / named
    if not is_folder:
        if not place.is_file():
            raise PipelineError(f"{path}: 'libraries' names {pattern!r}, and there is no file {place}")
        found = [place]
    else:
        found = sorted(file for file in place.rglob("*") if file.is_file() and "__pycache__" not in file.parts)
        if not found:
            raise PipelineError(f"{path}: 'libraries' names {pattern!r}, and there is no file below {place}")
    for file in found:
        if file.suffix not in _DEFINITIONS:
            raise PipelineError(f"{path}: 'libraries' names {file}; tables are defined in {' and '.join(_DEFINITIONS)} "
                                "files")
    return found
