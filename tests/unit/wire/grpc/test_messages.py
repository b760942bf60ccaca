"""The messages, and what their stubs say of them."""

import ast
from typing import Any

import pytest

from regulus.wire.grpc import codes, definitions, health_messages, messages, reflection_messages
from tests.grpc_descriptors import ROOM, STUBS, stub_of

MODULES = {"messages": messages, "health_messages": health_messages, "reflection_messages": reflection_messages}
SCALARS = {"bool": bool, "bytes": bytes, "float": float, "int": int, "str": str}


def test_the_numbers_written_here_are_those_of_the_definitions() -> None:
    for kind in ("Code", "MessageType", "Permission", "FilterType", "ClientType", "AddressScheme", "Encoding",
                 "DigestType", "Language", "TransactionResolution", "TransactionSource"):
        numbers = definitions.enum_values(f"apache.rocketmq.v2.{kind}")
        for each in getattr(codes, kind):
            assert numbers[each.name] == each.value, (kind, each)


def test_a_message_travels_as_the_official_clients_write_it() -> None:
    """The bytes are those of protobuf's wire format: field 1 (topic) with its field 2 (name), then field 4 (body)."""
    message = messages.Message(topic=messages.Resource(name="Orders"), body=b"x")
    assert message.SerializeToString() == b"\x0a\x08\x12\x06Orders\x22\x01x"


@pytest.mark.parametrize("module", MODULES)
def test_there_are_no_other_messages(module: str) -> None:
    with pytest.raises(AttributeError, match="no message and no service Nonsense"):
        MODULES[module].Nonsense    # noqa: B018


# --- stubs -----------------------------------------------------------------------------------------------------------


def test_every_module_of_messages_has_a_stub() -> None:
    assert set(MODULES) == set(STUBS) == {path.stem for path in ROOM.glob("*.pyi")}


@pytest.mark.parametrize("module", MODULES)
def test_a_stub_is_what_the_definitions_make_of_it(module: str) -> None:
    """Else: `python -m tests.grpc_descriptors`."""
    assert (ROOM / f"{module}.pyi").read_text() == stub_of(module)


def classes(module: str, *bases: str) -> dict[str, ast.ClassDef]:
    """Those of a stub that have these bases."""
    return {node.name: node for node in ast.parse((ROOM / f"{module}.pyi").read_text()).body
            if isinstance(node, ast.ClassDef) and tuple(map(ast.unparse, node.bases)) == bases}


def annotations(node: ast.ClassDef) -> dict[str, str]:
    """What can be read of a message or a service, and its type."""
    found = {each.target.id: ast.unparse(each.annotation) for each in node.body
             if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)}
    return found | {each.name: ast.unparse(each.returns) for each in node.body
                    if isinstance(each, ast.FunctionDef) and each.decorator_list and each.returns}


def names_taken(node: ast.ClassDef, method: str) -> list[str]:
    """The strings that a method takes."""
    (found,) = (each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == method)
    annotation = found.args.args[1].annotation
    assert annotation is not None
    return [each.value for each in ast.walk(annotation) if isinstance(each, ast.Constant)]


MESSAGES = [pytest.param(getattr(MODULES[module], name), node, id=f"{module}-{name}")
            for module in MODULES for name, node in classes(module, "_Message").items()]


@pytest.mark.parametrize(("kind", "node"), MESSAGES)
def test_a_stub_says_of_a_message_what_protobuf_says(kind: Any, node: ast.ClassDef) -> None:
    made, said = kind(), annotations(node)
    constants = {name for name, text in said.items() if text == "ClassVar[int]"}
    fields = {field.name: field for field in kind.DESCRIPTOR.fields}
    assert set(said) - constants == set(fields)
    assert all(isinstance(getattr(kind, name), int) for name in constants)
    for name, field in fields.items():
        if said[name] in SCALARS:
            assert type(getattr(made, name)) is SCALARS[said[name]]
        else:
            with pytest.raises((AttributeError, TypeError)):
                setattr(made, name, getattr(made, name))        # it can be changed in place alone
        assert field.is_repeated == ("[" in said[name])
        assert (name in names_taken(node, "HasField")) == field.has_presence
    assert names_taken(node, "WhichOneof") == [each.name for each in kind.DESCRIPTOR.oneofs
                                               if not each.name.startswith("_")]


@pytest.mark.parametrize("module", MODULES)
def test_a_stub_says_of_a_service_what_its_methods_take_and_answer(module: str) -> None:
    ((name, node),) = classes(module).items()
    service = getattr(MODULES[module], name)
    assert annotations(node) == {
        method: f"ClassVar[Rpc[{rpc.request.__name__}, {rpc.response.__name__}]]"
        for method, rpc in vars(service).items() if isinstance(rpc, definitions.Rpc)}


def test_the_service_of_rocketmq_has_seventeen_methods() -> None:
    assert sum(isinstance(each, definitions.Rpc) for each in vars(messages.MessagingService).values()) == 17
