"""Compiles `wire/grpc/proto` into `wire/grpc/definitions.binpb`, and writes the stubs of what it defines:
`python -m tests.grpc_descriptors`, with grpcio-tools.

Only whoever changes the .proto files or the stubs' form needs the compiler: its output is kept.
"""

import sys
import tempfile
from pathlib import Path

from google.protobuf.descriptor_pb2 import FileDescriptorSet

from tests.grpc_stubs import stub_text

ROOM = Path(__file__).parent.parent / "src" / "regulus" / "wire" / "grpc"
DEFINITIONS = ROOM / "definitions.binpb"
STUBS = {"messages": "apache.rocketmq.v2", "health_messages": "grpc.health.v1",
         "reflection_messages": "grpc.reflection.v1"}
"""Module -> package. That of `grpc.reflection.v1alpha` has the messages of `v1`."""


def compiled() -> bytes:
    """The FileDescriptorSet of the .proto files, without their comments."""
    from grpc_tools import protoc

    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "set"
        include = Path(protoc.__file__).parent / "_proto"
        protos = sorted((ROOM / "proto").rglob("*.proto"))
        code = protoc.main(["protoc", f"-I{ROOM / 'proto'}", f"-I{include}", "--include_imports",
                            f"--descriptor_set_out={out}", *map(str, protos)])
        if code:
            sys.exit(code)
        return out.read_bytes()


def stub_of(module: str) -> str:
    """The stub of a module, from the definitions that are kept."""
    return stub_text(FileDescriptorSet.FromString(DEFINITIONS.read_bytes()), STUBS[module])


if __name__ == "__main__":
    DEFINITIONS.write_bytes(compiled())
    for module in STUBS:
        (ROOM / f"{module}.pyi").write_text(stub_of(module))
