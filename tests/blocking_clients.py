"""Writes `regulus.client.sync`, the blocking clients, from the asyncio ones.

    python -m tests.blocking_clients        after a change to a public method of a client

Each public method gets a blocking twin with the same arguments, types and docstring; a property too; `send` gets
`send_async` besides. What a client has only because its parts ask for it is left out: the methods of a Protocol of
`regulus.client` that the client satisfies.
"""

import ast
import inspect
import pkgutil
import sys
import textwrap
from collections import defaultdict
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import FunctionType, ModuleType

import regulus.client
from regulus.client.administration.admin import Admin
from regulus.client.consuming.push_consumer import PushConsumer
from regulus.client.consuming.simple_consumer import SimpleConsumer
from regulus.client.sending.producer import Producer
from regulus.client.sending.transaction_producer import TransactionProducer

FACES = (Producer, TransactionProducer, PushConsumer, SimpleConsumer, Admin)
TARGET = Path(regulus.client.__file__).with_name("sync.py")
LINE_SIZE = 120

HEAD = '''\
"""The same clients for programs without an event loop: every method blocks until it is done.

        with Producer("127.0.0.1:9876", "my-group") as producer:
            producer.send(Message("my-topic", b"hello"))

All blocking clients of a process share one event loop in a thread of its own, and so their connections. They may be
used from any number of threads; a consumer's listener is called in a pool of threads, as with the asyncio client.

Written by `python -m tests.blocking_clients` from the asyncio clients: change those, and have it written anew.
"""
'''


def asked_by_parts(face: type) -> set[str]:
    """Names of the methods that the face has for the Protocols of `regulus.client` which it satisfies."""
    names: set[str] = set()
    for found in pkgutil.walk_packages(regulus.client.__path__, "regulus.client."):
        if found.name == "regulus.client.sync":
            continue
        for each in vars(import_module(found.name)).values():
            if isinstance(each, type) and getattr(each, "_is_protocol", False):
                asked = {name for part in each.__mro__ for name, value in vars(part).items()
                         if isinstance(value, FunctionType) and not name.startswith("_")}
                if asked and all(hasattr(face, name) for name in asked):
                    names |= asked
    return names


def public_methods(face: type) -> dict[str, FunctionType | property]:
    """The methods and properties that a face has for its users, those of its bases first."""
    hidden = asked_by_parts(face)
    found: dict[str, FunctionType | property] = {}
    for part in reversed(face.__mro__):
        for name, value in vars(part).items():
            if isinstance(value, FunctionType | property) and not name.startswith("_") and name not in hidden:
                found[name] = value
    return found


class Writer:
    """Gathers the lines of the classes, and what they import."""

    def __init__(self) -> None:
        self.imports: dict[str, set[str]] = defaultdict(set)
        self.imports["regulus.client"].add("shared_loop")
        self.lines: list[str] = []

    def write(self) -> str:
        for face in FACES:
            self._class(face)
        body = "\n".join(self.lines)
        imports = [f"from {module} import {', '.join(sorted(names, key=_import_order))}"
                   for module, names in self.imports.items()]
        imports += [f"from {face.__module__} import {face.__name__} as Asyncio{face.__name__}" for face in FACES]
        ordered = sorted(imports, key=lambda line: (line.split()[1].startswith("regulus"), line.split()[1], line))
        outside = [_fit(line) for line in ordered if not line.startswith("from regulus")]
        ours = [_fit(line) for line in ordered if line.startswith("from regulus")]
        return "\n".join([HEAD, *outside, "", *ours]) + "\n" + body + "\n"

    def _class(self, face: type) -> None:
        bases = [base for base in face.__mro__[1:] if base in FACES]
        base = bases[0].__name__ if bases else "shared_loop.Blocking"
        known = public_methods(bases[0]) if bases else {}
        self.lines += ["", "", f"class {face.__name__}({base}):", f'    """Blocking `regulus.{face.__name__}`."""', ""]
        if bases:
            self.lines += [f"    _client: Asyncio{face.__name__}", ""]
        arguments, passed, _ = self._signature(face.__init__)
        self._def("__init__", arguments, "None", inspect.getdoc(face.__init__))
        self._body(f"self._client = shared_loop.made(lambda: Asyncio{face.__name__}({passed}))")
        for name, method in public_methods(face).items():
            if name in known and _signature_text(known[name]) == _signature_text(method):
                continue
            self._method(name, method)

    def _method(self, name: str, method: FunctionType | property) -> None:
        if isinstance(method, property):
            getter = method.fget
            assert isinstance(getter, FunctionType)
            arguments, _, returned = self._signature(getter)
            self.lines += ["", "    @property"]
            self._def(name, arguments, returned, inspect.getdoc(method))
            self._body(f"return shared_loop.call(lambda: self._client.{name})")
            return
        arguments, passed, returned = self._signature(method)
        self._def(name, arguments, returned, inspect.getdoc(method))
        word = "" if returned == "None" else "return "
        if inspect.iscoroutinefunction(method):
            self._body(f"{word}shared_loop.run(self._client.{name}({passed}))")
        else:
            self._body(f"{word}shared_loop.call(lambda: self._client.{name}({passed}))")
        if name == "send":
            self.imports["concurrent.futures"].add("Future")
            self._def("send_async", arguments, f'"Future[{returned}]"',
                      "Begin a send and return at once; the future has the result or the error.")
            self._body(f"return shared_loop.submit(self._client.{name}({passed}))")

    def _signature(self, method: FunctionType) -> tuple[list[str], str, str]:
        """Its arguments as they are written and as they are passed on, and what it returns; imports what they name."""
        module = sys.modules[method.__module__]
        node = _node_of(method)
        for part in (node.args, node.returns):
            for name in _names(part):
                self._import(module, name)
        positional = [argument.arg for argument in node.args.args[1:]]
        named = [f"{argument.arg}={argument.arg}" for argument in node.args.kwonlyargs]
        returned = ast.unparse(node.returns) if node.returns else "None"
        return _arguments(node), ", ".join(positional + named), returned

    def _import(self, module: ModuleType, name: str) -> None:
        for node in ast.parse(inspect.getsource(module)).body:
            if isinstance(node, ast.ImportFrom) and any(each.name == name for each in node.names):
                assert node.module is not None
                self.imports[node.module].add(name)
                return
        if hasattr(module, name):
            self.imports[module.__name__].add(name)

    def _def(self, name: str, arguments: list[str], returned: str, doc: str | None) -> None:
        start = f"    def {name}("
        lines = _wrapped([*arguments[:-1], f"{arguments[-1]}) -> {returned}:"], LINE_SIZE - len(start))
        if self.lines[-1] and self.lines[-1] != "    @property":
            self.lines.append("")
        self.lines.append(start + lines[0])
        self.lines += [" " * len(start) + line for line in lines[1:]]
        if doc:
            text = f'"""{doc}"""' if "\n" not in doc else f'"""{doc}\n"""'
            self.lines += [f"        {line}" if line else "" for line in text.splitlines()]

    def _body(self, statement: str) -> None:
        if len(statement) + 8 <= LINE_SIZE:
            self.lines.append(f"        {statement}")
            return
        opening = statement.rindex("(", 0, statement.index(")")) + 1
        self.lines.append(f"        {statement[:opening]}")
        self.lines += [f"            {line}" for line in _wrapped(statement[opening:].split(", "), LINE_SIZE - 12)]


def _node_of(method: FunctionType) -> ast.FunctionDef | ast.AsyncFunctionDef:
    node = ast.parse(textwrap.dedent(inspect.getsource(method))).body[0]
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    return node


def _wrapped(parts: list[str], size: int) -> list[str]:
    """The parts with commas between them, in lines of at most `size` characters that break between parts."""
    lines = [parts[0]]
    for part in parts[1:]:
        if len(lines[-1]) + 2 + len(part) + 1 > size:
            lines[-1] += ","
            lines.append(part)
        else:
            lines[-1] += f", {part}"
    return lines


def _arguments(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    """As the house writes them: `name: type = value`."""
    arguments = node.args
    without = len(arguments.args) - len(arguments.defaults)
    found = [_argument(argument, arguments.defaults[number - without] if number >= without else None)
             for number, argument in enumerate(arguments.args)]
    if arguments.kwonlyargs:
        found.append("*")
        found += [_argument(*each) for each in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]
    if arguments.vararg or arguments.kwarg or arguments.posonlyargs:
        raise NotImplementedError(f"{node.name}: arguments of a kind that no client has had yet")
    return found


def _argument(argument: ast.arg, default: ast.expr | None) -> str:
    text = argument.arg if argument.annotation is None else f"{argument.arg}: {ast.unparse(argument.annotation)}"
    if default is None:
        return text
    value = ast.unparse(default)
    if isinstance(default, ast.Constant) and isinstance(default.value, str):
        value = f'"{default.value}"'
    return f"{text} = {value}"


def _names(node: ast.AST | None) -> Iterator[str]:
    if node is not None:
        yield from (each.id for each in ast.walk(node) if isinstance(each, ast.Name))


def _signature_text(method: FunctionType | property) -> str:
    return str(inspect.signature(method)) if isinstance(method, FunctionType) else ""


def _import_order(name: str) -> tuple[bool, bool, str]:
    """As ruff sorts them: constants, classes, functions and modules."""
    return not name.isupper(), not name[0].isupper(), name.lower()


def _fit(line: str) -> str:
    if len(line) <= LINE_SIZE:
        return line
    start, _, names = line.partition(" import ")
    return f"{start} import (\n" + "".join(f"    {name},\n" for name in names.split(", ")) + ")"


if __name__ == "__main__":
    TARGET.write_text(Writer().write())
