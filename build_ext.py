"""Compiles the hot modules from the same `.py` sources that run interpreted.

Two uses:

    setup.py                              adds the compiled modules to the wheel; without a C compiler the wheel is pure
    python build_ext.py OUT [MODULE...]   a full copy of the package under OUT with the modules compiled

A copy keeps what it has compiled under build/kept, by the content that it was made of; a module is compiled again when
that changes, whatever the times of the files are.

Environment: REGULUS_SKIP_CYTHON=1 leaves everything interpreted, REGULUS_REQUIRE_CYTHON=1 makes a failed build fatal.
REGULUS_COMPILE_ARGS takes the place of what the compiler is told, for another one than gcc (CC says which).
"""

import hashlib
import os
import shlex
import shutil
import sys
import sysconfig
from pathlib import Path
from typing import Any

from setuptools import Distribution, Extension
from setuptools.command.build_ext import build_ext

SOURCE = Path(__file__).resolve().parent / "src"

COMPILED_MODULES = (
    "regulus.access.signed_sends",
    "regulus.broker.handlers.pull_message",
    "regulus.broker.handlers.send_message",
    "regulus.broker.filters.message_filter",
    "regulus.broker.outcome",
    "regulus.broker.placement",
    "regulus.broker.request_table",
    "regulus.broker.send_facts",
    "regulus.broker.filters.sql_parts",
    "regulus.broker.filters.sql_values",
    "regulus.broker.storing",
    "regulus.model.java_hash",
    "regulus.model.message",
    "regulus.model.message_filter",
    "regulus.model.message_properties",
    "regulus.model.peer",
    "regulus.model.store_result",
    "regulus.record.consume_queue_unit",
    "regulus.record.dispatch_request",
    "regulus.record.index_entry",
    "regulus.record.log_units",
    "regulus.record.message_columns",
    "regulus.record.message_record",
    "regulus.record.named_properties",
    "regulus.record.part_copy",
    "regulus.server.request_server",
    "regulus.store.commit_log",
    "regulus.store.consume_queue",
    "regulus.store.consume_queues",
    "regulus.store.dispatch",
    "regulus.store.file_message_store",
    "regulus.store.index",
    "regulus.store.log_copy",
    "regulus.store.mapped_file",
    "regulus.store.mapped_file_queue",
    "regulus.transport.connection",
    "regulus.wire.command_header",
    "regulus.wire.ext_fields",
    "regulus.wire.frame_reader",
    "regulus.wire.header_json",
    "regulus.wire.header_rocketmq",
    "regulus.wire.headers.straight_send",
    "regulus.wire.headers.pull_message",
    "regulus.wire.headers.send_message",
    "regulus.wire.message_batch",
    "regulus.wire.octets",
    "regulus.wire.row_digest",
    "regulus.wire.straight_batch",
    "regulus.wire.straight_properties",
    "regulus.wire.remoting_command",
)

_DIRECTIVES = {
    "language_level": 3,
    "wraparound": False,
    "cdivision": True,
    "infer_types": True,
    "annotation_typing": False,
    "initializedcheck": False,
}


_UNCHECKED = ("regulus.record.part_copy",)
"""Bounds are checked in all others, for these modules read what strangers send. Whoever belongs here says what a check
would cost, as measured, and looks at all its bounds before its loop."""

# fwrapv: Java's hash wraps around; O2 with vectors is as fast here as O3 and compiles in half the time.
_COMPILE_ARGS = "-O2 -ftree-vectorize -fvect-cost-model=dynamic -fwrapv -g0 -Wno-unreachable-code-fallthrough"

_SHARED_UTILITY = "regulus._cyutility"

_KEPT = Path("build") / "kept"
_KEPT_MAX = 4
"""Builds of one module; the one that was used longest ago goes."""


class OptionalBuildExt(build_ext):
    """Compiles what it can; says once, clearly, when it cannot."""

    def run(self) -> None:
        try:
            super().run()
        except Exception as error:  # any fault of the toolchain: the pure package works all the same
            if os.environ.get("REGULUS_REQUIRE_CYTHON"):
                raise
            self.extensions = []
            print(
                f"regulus: no compiled modules ({type(error).__name__}: {str(error).splitlines()[0][:200]}); the "
                "package runs interpreted, several times slower. Install a C compiler and reinstall to have them.",
                file=sys.stderr,
            )


def extensions(modules: tuple[str, ...] = COMPILED_MODULES, build_dir: str = "build/cython") -> list[Extension]:
    """The extension modules; empty, with a notice, where they must or can only be left out."""
    if os.environ.get("REGULUS_SKIP_CYTHON"):
        return []
    from Cython.Build import cythonize

    compile_args = shlex.split(os.environ.get("REGULUS_COMPILE_ARGS", _COMPILE_ARGS))
    # Views, string and call helpers are compiled once, in a module of their own, and not once a module.
    sources = [
        Extension(
            name,
            [str(Path(build_dir) / "_cyutility.c") if name == _SHARED_UTILITY else os.path.relpath(_source_of(name))],
            extra_compile_args=compile_args,
        )
        for name in (*modules, _SHARED_UTILITY)
    ]
    return [
        extension
        for is_checked in (True, False)
        for extension in cythonize(
            [source for source in sources if (source.name not in _UNCHECKED) == is_checked],
            build_dir=build_dir,
            compiler_directives={**_DIRECTIVES, "boundscheck": is_checked},
            include_path=[str(SOURCE)],
            shared_utility_qualified_name=_SHARED_UTILITY,
            nthreads=os.cpu_count() or 1,
            quiet=True,
            show_all_warnings=False,
        )
    ]


def build(setup_arguments: dict[str, Any]) -> None:
    """Add the compiled modules to setup()'s arguments."""
    os.chdir(SOURCE.parent)
    setup_arguments["ext_modules"] = extensions()
    setup_arguments["cmdclass"] = {"build_ext": OptionalBuildExt}


def build_copy(target: Path, modules: tuple[str, ...]) -> None:
    """A full copy of `src` under `target` with `modules` compiled; nothing of an earlier copy is left over."""
    target = target.resolve()
    os.chdir(SOURCE.parent)
    wanted = {
        path.relative_to(SOURCE)
        for path in SOURCE.rglob("*")
        if path.is_file()
        and "__pycache__" not in path.parts
        and not any(part.endswith(".egg-info") for part in path.parts)
    }
    compiled_stems = {Path(name.replace(".", "/")) for name in (*modules, _SHARED_UTILITY)}
    if target.exists():
        for path in target.rglob("*"):
            if not path.is_file() or "__pycache__" in path.parts:
                continue
            relative = path.relative_to(target)
            keep = (
                relative.with_name(relative.name.split(".")[0]) in compiled_stems
                if path.suffix == ".so"
                else relative in wanted
            )
            if not keep:
                path.unlink()
    for relative in sorted(wanted):
        destination = target / relative
        if not destination.exists() or destination.read_bytes() != (SOURCE / relative).read_bytes():
            destination.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(SOURCE / relative, destination)
    _compile_into(target, modules)


def _compile_into(target: Path, modules: tuple[str, ...]) -> None:
    fingerprints = _fingerprints((*modules, _SHARED_UTILITY))
    missing = tuple(name for name in modules if not _take_kept(target, name, fingerprints[name]))
    if not missing and _take_kept(target, _SHARED_UTILITY, fingerprints[_SHARED_UTILITY]):
        return
    temporary = Path("build") / f"temp-{target.name}"
    shutil.rmtree(temporary, ignore_errors=True)    # Cython goes by times, and would take another's C for this one's
    command = build_ext(Distribution({"ext_modules": extensions(missing, build_dir=str(temporary / "c"))}))
    command.build_lib, command.build_temp = str(target), str(temporary)
    command.parallel = os.cpu_count()
    command.ensure_finalized()
    command.run()
    if command.extensions:
        for name in (*missing, _SHARED_UTILITY):
            _keep(target, name, fingerprints[name])


def _fingerprints(modules: tuple[str, ...]) -> dict[str, str]:
    """By all that a module is compiled of: its own text, what others declare, the compilers and what they are told."""
    import Cython

    told = (Cython.__version__, sys.version, *map(os.environ.get, ("REGULUS_COMPILE_ARGS", "CC", "LDFLAGS")))
    common = hashlib.sha256(repr(told).encode() + Path(__file__).read_bytes())
    for path in sorted(SOURCE.rglob("*.pxd")):
        common.update(repr(path.relative_to(SOURCE)).encode() + path.read_bytes())
    found = {}
    for name in modules:
        digest = common.copy()
        if name != _SHARED_UTILITY:
            digest.update(_source_of(name).read_bytes())
        found[name] = digest.hexdigest()
    return found


def _compiled_path(target: Path, name: str) -> Path:
    return target / f"{name.replace('.', '/')}{sysconfig.get_config_var('EXT_SUFFIX')}"


def _take_kept(target: Path, name: str, fingerprint: str) -> bool:
    kept = _KEPT / name / fingerprint
    if not kept.exists():
        return False
    os.utime(kept)
    path = _compiled_path(target, name)
    if not path.exists() or path.read_bytes() != kept.read_bytes():
        _copy_whole(kept, path)
    return True


def _keep(target: Path, name: str, fingerprint: str) -> None:
    directory = _KEPT / name
    directory.mkdir(parents=True, exist_ok=True)
    _copy_whole(_compiled_path(target, name), directory / fingerprint)
    by_use = sorted(directory.iterdir(), key=lambda path: path.stat().st_mtime)
    for path in by_use[:-_KEPT_MAX]:
        path.unlink()


def _copy_whole(source: Path, destination: Path) -> None:
    """At once: a build that is killed leaves no half module."""
    destination.parent.mkdir(parents=True, exist_ok=True)
    half = destination.with_name(f"{destination.name}.half")
    shutil.copyfile(source, half)
    half.replace(destination)


def _source_of(name: str) -> Path:
    return SOURCE / f"{name.replace('.', '/')}.py"


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    build_copy(
        Path(sys.argv[1]),
        tuple(sys.argv[2:])
        or tuple(name for name in COMPILED_MODULES if _source_of(name).exists()),
    )
