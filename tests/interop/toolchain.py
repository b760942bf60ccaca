"""Everything the interoperability tests take from others comes through here, by each registry's ordinary client.

Each part (the jars of one RocketMQ version, the Go program, the node program, the native Python client) is made once
under `build/interop` and made again when the files it is made from change.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import regulus

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parents[1]
BUILD = PROJECT / "build" / "interop"
CLIENTS5 = HERE / "clients5"
PARQUET_READERS = HERE / "parquet_readers"
MAKE_TIMEOUT_S = 300        # of each tool
COMPILE_TIMEOUT_S = 1200    # of Go and Rust, which compile all that a program needs, the first time: 250 crates

JAVA_VERSIONS = ("4.9.8", "5.3.3")
NEWEST_JAVA = "5.5.1"
"""Of what the others do not have."""
_COPY_DEPENDENCIES = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
_MENDS = {
    "java": "install a JDK 17 (Debian: apt install openjdk-17-jdk-headless)",
    "javac": "install a JDK 17 (Debian: apt install openjdk-17-jdk-headless)",
    "mvn": "install Maven 3.8 or newer (Debian: apt install maven)",
    "go": "install Go 1.21 or newer (https://go.dev/dl)",
    "node": "install Node.js 18 or newer (Debian: apt install nodejs npm)",
    "cargo": "install Rust 1.85 or newer (https://rustup.rs)",
    "npm": "install npm, which comes with Node.js (Debian: apt install nodejs npm)",
}
_OF_LONG_TESTS = {"cargo"}


class ToolMissing(Exception):
    """A program that must be on the machine is not; the text says how to mend it."""


class MakeFailed(Exception):
    """A part could not be made; the text carries what its tool wrote."""


def our_environment() -> dict[str, str]:
    """Environment of child processes: they run in other directories, and must find the Regulus that runs here."""
    return {**os.environ, "PYTHONPATH": str(Path(regulus.__file__).resolve().parents[1])}


def tool(name: str) -> str:
    """Path of a program. Raises ToolMissing with the mend in one sentence."""
    found = shutil.which(name)
    if found is None:
        raise ToolMissing(f"the interoperability tests need `{name}`, which is not on PATH: {_MENDS[name]}.")
    return found


def check_tools() -> None:
    """Raises ToolMissing for the first program that is not there, before anything is downloaded."""
    for name in _MENDS:
        if name not in _OF_LONG_TESTS:
            tool(name)


def _run(command: Sequence[str], cwd: Path, env: dict[str, str] | None = None,
         timeout_s: float = MAKE_TIMEOUT_S) -> None:
    try:
        result = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=timeout_s)
    except subprocess.TimeoutExpired as problem:
        raise MakeFailed(str(problem)) from problem
    if result.returncode != 0:
        raise MakeFailed(f"{' '.join(command)} ended with {result.returncode}:\n{result.stdout}\n{result.stderr}")


@contextmanager
def _making() -> Iterator[None]:
    """One at a time, of all threads and of all processes that share build/interop."""
    BUILD.mkdir(parents=True, exist_ok=True)
    with (BUILD / ".making").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _made(name: str, sources: Sequence[Path], make: Callable[[Path], None]) -> Path:
    """The directory build/interop/<name>; `make` fills it when it is missing or its sources changed."""
    directory = BUILD / name
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()
    stamp = directory / ".made-from"
    with _making():
        if not stamp.exists() or stamp.read_text() != digest:
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir(parents=True)
            make(directory)
            stamp.write_text(digest)
    return directory


def java_libraries(name: str) -> Path:
    """Directory with the jars that java/<name>/pom.xml asks for: a RocketMQ version, or `benchmark`."""
    pom = HERE / "java" / name / "pom.xml"

    def make(directory: Path) -> None:
        _run([tool("mvn"), "-q", "-B", "-f", str(pom), _COPY_DEPENDENCIES, f"-DoutputDirectory={directory}",
              "-DincludeScope=runtime"], HERE)

    return _made(f"java-{name}", [pom], make)


def java_classpath(version: str) -> str:
    """The class path of the servers, the tools and our drivers of RocketMQ `version`."""
    libraries = java_libraries(version)
    sources = [HERE / "java" / name for name in ("RocketMQDriver.java", "AdminRunner.java", "SqlVerdicts.java")]

    def make(directory: Path) -> None:
        _run([tool("javac"), "-nowarn", "-d", str(directory), "-cp", f"{libraries}/*", *map(str, sources)], HERE)

    classes = _made(f"java-{version}-drivers", [*sources, HERE / "java" / version / "pom.xml"], make)
    return f"{classes}:{libraries}/*"


def java_policies(version: str) -> str:
    """The class path of RocketMQ's own evaluator of policies."""
    libraries = java_libraries(version)
    source = HERE / "java" / "PolicyVerdicts.java"

    def make(directory: Path) -> None:
        _run([tool("javac"), "-nowarn", "-d", str(directory), "-cp", f"{libraries}/*", str(source)], HERE)

    classes = _made(f"java-{version}-policies", [source, HERE / "java" / version / "pom.xml"], make)
    return f"{classes}:{libraries}/*"


def go_program() -> Path:
    """The Go driver, built against github.com/apache/rocketmq-client-go/v2."""
    source = HERE / "go"

    def make(directory: Path) -> None:
        _run([tool("go"), "build", "-o", str(directory / "driver"), "."], source, timeout_s=COMPILE_TIMEOUT_S)

    return _made("go", [source / name for name in ("go.mod", "go.sum", "main.go")], make) / "driver"


def node_program() -> Path:
    """Directory with the node driver and the packages it needs (npm: ali-ons)."""
    source = HERE / "node"

    def make(directory: Path) -> None:
        for name in ("package.json", "package-lock.json", "driver.js"):
            shutil.copy(source / name, directory / name)
        _run([tool("npm"), "ci", "--no-audit", "--no-fund"], directory)

    names = ("package.json", "package-lock.json", "driver.js")
    return _made("node", [source / name for name in names], make) / "driver.js"


def native_python() -> Path:
    """A Python in an environment of its own that holds PyPI's `rocketmq`, the binding of librocketmq."""
    requirements = HERE / "python" / "requirements.txt"

    return _made("native-python", [requirements], lambda directory: _environment(directory, requirements)) / \
        "bin" / "python"


def workers_python() -> Path:
    """A Python in an environment of its own that holds gunicorn, uvicorn, Celery and gevent."""
    requirements = HERE / "workers" / "requirements.txt"

    return _made("workers-python", [requirements], lambda directory: _environment(directory, requirements)) / \
        "bin" / "python"


def parquet_python() -> Path:
    """A Python in an environment of its own that holds Polars, DuckDB, DataFusion and ClickHouse."""
    requirements = PARQUET_READERS / "requirements.txt"

    return _made("parquet-python", [requirements], lambda directory: _environment(directory, requirements)) / \
        "bin" / "python"


def _environment(directory: Path, requirements: Path) -> None:
    """A virtual environment in `directory` with what the file asks for."""
    _run([sys.executable, "-m", "venv", str(directory)], HERE)
    _run([str(directory / "bin" / "python"), "-m", "pip", "install", "-q", "-r", str(requirements)], HERE,
         {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"})


def proxy_libraries(version: str = "5.3.3") -> Path:
    """Directory with the jars of RocketMQ's proxy, which come before those of its broker."""
    return java_libraries(f"proxy-{version}")


def clients5_java() -> str:
    """Class path of the driver of the official RocketMQ 5 client for Java."""
    pom, source = CLIENTS5 / "java" / "pom.xml", CLIENTS5 / "java" / "Clients5Driver.java"

    def make(directory: Path) -> None:
        _run([tool("mvn"), "-q", "-B", "-f", str(pom), _COPY_DEPENDENCIES, f"-DoutputDirectory={directory}",
              "-DincludeScope=runtime"], HERE)
        _run([tool("javac"), "-nowarn", "-d", str(directory), "-cp", f"{directory}/*", str(source)], HERE)

    directory = _made("clients5-java", [pom, source], make)
    return f"{directory}:{directory}/*"


def clients5_node() -> Path:
    """The node driver beside npm's rocketmq-client-nodejs."""
    names = ("package.json", "package-lock.json", "program.js")
    source = CLIENTS5 / "node"

    def make(directory: Path) -> None:
        for name in names:
            shutil.copy(source / name, directory / name)
        _run([tool("npm"), "ci", "--no-audit", "--no-fund"], directory)

    return _made("clients5-node", [source / name for name in names], make) / "program.js"


def clients5_go(name: str = "clients5-go", main: Path = CLIENTS5 / "go" / "main.go") -> Path:
    """The Go driver, or another program of one file, built against github.com/apache/rocketmq-clients/golang/v5.

    What Go compiles for one it keeps for the others.
    """
    modules = [CLIENTS5 / "go" / "go.mod", CLIENTS5 / "go" / "go.sum"]

    def make(directory: Path) -> None:
        for each in (*modules, main):
            shutil.copy(each, directory)
        _run([tool("go"), "build", "-o", "driver", "."], directory, timeout_s=COMPILE_TIMEOUT_S)

    return _made(name, [*modules, main], make) / "driver"


def h2spec() -> Path:
    """The conformance tests of HTTP/2 of github.com/summerwind/h2spec, as a program."""
    version = "v2.2.1+incompatible"

    def make(directory: Path) -> None:
        _run([tool("go"), "install", f"github.com/summerwind/h2spec/cmd/h2spec@{version}"], HERE,
             {**os.environ, "GOBIN": str(directory), "GOFLAGS": "-mod=mod"}, timeout_s=COMPILE_TIMEOUT_S)

    return _made(f"h2spec-{version}", [], make) / "h2spec"


def grpcurl() -> Path:
    """The gRPC client of the command line, github.com/fullstorydev/grpcurl, which learns a server's calls from it."""
    version = "v1.9.3"

    def make(directory: Path) -> None:
        _run([tool("go"), "install", f"github.com/fullstorydev/grpcurl/cmd/grpcurl@{version}"], HERE,
             {**os.environ, "GOBIN": str(directory), "GOFLAGS": "-mod=mod"}, timeout_s=COMPILE_TIMEOUT_S)

    return _made(f"grpcurl-{version}", [], make) / "grpcurl"


def clients5_rust(name: str = "clients5-rust", main: Path = CLIENTS5 / "rust" / "src" / "main.rs") -> Path:
    """The Rust driver, or another program of one file, built against crates.io's rocketmq.

    What cargo builds stays beside it for the next time and for the others.
    """
    crates = [CLIENTS5 / "rust" / "Cargo.toml", CLIENTS5 / "rust" / "Cargo.lock"]

    def make(directory: Path) -> None:
        target = BUILD / "clients5-rust-target"
        (directory / "src").mkdir()
        for each in crates:
            shutil.copy(each, directory)
        shutil.copy(main, directory / "src" / "main.rs")
        _run([tool("cargo"), "build", "--release", "--locked"], directory,
             {**os.environ, "CARGO_TARGET_DIR": str(target)}, timeout_s=COMPILE_TIMEOUT_S)
        shutil.copy(target / "release" / "regulus-interop-clients5", directory / "driver")

    return _made(name, [*crates, main], make) / "driver"


def grpc_python() -> Path:
    """A Python in an environment of its own that holds the official RocketMQ 5 client."""
    requirements = HERE / "python_grpc" / "requirements.txt"
    return _made("grpc-python", [requirements], lambda directory: _environment(directory, requirements)) / \
        "bin" / "python"


def mariadb_server() -> tuple[Path, dict[str, str]]:
    """The directory with bin/ and sbin/ of a MariaDB server, and its programs' environment. Raises ToolMissing."""
    return _server("mariadbd", "MariaDB 10.11 or newer", ["mariadb-server-core", "mariadb-client-core"])


def redis_server() -> tuple[Path, dict[str, str]]:
    """The same of a Redis server. Raises ToolMissing."""
    return _server("redis-server", "Redis 7 or newer", ["redis-server"])


def pgbouncer() -> tuple[Path, dict[str, str]]:
    """The same of PgBouncer, a pooler for PostgreSQL. Raises ToolMissing."""
    return _server("pgbouncer", "PgBouncer 1.18 or newer", ["pgbouncer"])


def _server(program: str, what: str, packages: list[str]) -> tuple[Path, dict[str, str]]:
    """Of this machine where it has one; else Debian's packages. Raises ToolMissing where they cannot be had."""
    installed = shutil.which(program) or shutil.which(program, path="/usr/sbin")
    if installed:
        return Path(installed).resolve().parents[1], {**os.environ}
    return _debian_packages(program, what, packages)


def _debian_packages(program: str, what: str, packages: list[str]) -> tuple[Path, dict[str, str]]:
    """The directory `usr` of these packages with what they need, unpacked and not installed, and the environment of
    their programs. Raises ToolMissing where the machine is not Debian's."""
    if not all(map(shutil.which, ("apt-get", "dpkg-deb"))):
        raise ToolMissing(f"the interoperability tests need `{program}`, and this machine has neither that nor "
                          f"apt-get, which would fetch it: install {what}.")

    def make(directory: Path) -> None:
        lists, archives = directory / "apt" / "lists", directory / "apt" / "archives"
        for place in (lists, archives):
            (place / "partial").mkdir(parents=True)
        # With lists of its own, because those of the machine may be missing or old.
        apt = ["apt-get", "-o", f"Dir::State::Lists={lists}", "-o", f"Dir::Cache={directory / 'apt'}",
               "-o", "Debug::NoLocking=true", "-o", "APT::Sandbox::User=root", "-y"]
        _run([*apt, "update"], HERE)
        _run([*apt, "--download-only", "--no-install-recommends", "install", *packages], HERE)
        for package in sorted(archives.glob("*.deb")):
            _run(["dpkg-deb", "-x", str(package), str(directory)], HERE)
        shutil.rmtree(directory / "apt")

    directory = _made(program, [], make)
    libraries = ":".join(map(str, directory.glob("usr/lib/*-linux-gnu")))
    return directory / "usr", {**os.environ, "LD_LIBRARY_PATH": libraries}


def prometheus() -> tuple[Path, dict[str, str]]:
    """The directory with Prometheus and promtool in its `bin`, and their environment. Raises ToolMissing."""
    return _server("prometheus", "Prometheus 2.40 or newer", ["prometheus"])


def clang16() -> tuple[Path, dict[str, str]]:
    """The compiler for tests.fuzz, and its environment: this machine's, else Debian's. Raises ToolMissing."""
    installed = shutil.which("clang-16")
    if installed:
        return Path(installed), {**os.environ}
    packages = ["clang-16", "libclang-rt-16-dev"]
    programs, environment = _debian_packages("clang-16", "clang 16 with its runtimes", packages)
    return programs / "lib" / "llvm-16" / "bin" / "clang", environment


def atheris() -> Path:
    """A directory with the fuzzer for Python's extension modules, and the runtimes that it preloads."""
    requirements = HERE.parent / "fuzz" / "requirements.txt"

    def make(directory: Path) -> None:
        _run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--only-binary", ":all:", "--target",
              str(directory), "-r", str(requirements)], HERE, {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"})

    return _made("atheris", [requirements], make)


def make_clients5() -> None:
    """What the tests of the RocketMQ 5 clients need beyond the rest: minutes of compiling, the first time."""
    for make in (proxy_libraries, clients5_java, clients5_node, clients5_go, clients5_rust):
        make()


def make_everything() -> None:
    """All that the tests need. Raises ToolMissing before anything is downloaded, MakeFailed."""
    check_tools()
    for version in (*JAVA_VERSIONS, NEWEST_JAVA):
        java_classpath(version)
    proxy_libraries(NEWEST_JAVA)
    clients5_java()
    go_program()
    grpcurl()
    node_program()
    native_python()
    workers_python()
    grpc_python()
    mariadb_server()
    redis_server()
    pgbouncer()
    clang16()
    atheris()
