"""Compiles `wire/grpc/proto` into `wire/grpc/descriptors.py`: `python -m tests.grpc_descriptors`, with grpcio-tools.

Nobody but whoever changes the .proto files needs the compiler: what it made is kept.
"""

import sys
import tempfile
from pathlib import Path

ROOM = Path(__file__).parent.parent / "src" / "regulus" / "wire" / "grpc"
_SIZE = 52      # bytes a line
_HEAD = '''"""The descriptors of what `proto` has, and of what that imports, as a compiled FileDescriptorSet.

Generated: change the .proto files and run `python -m tests.grpc_descriptors`.
"""

FILE_DESCRIPTOR_SET = (
'''


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


def module_text(data: bytes) -> str:
    """The module that has the data, in lines that an editor can bear."""
    lines = [f"    {data[start:start + _SIZE].hex()!r}\n" for start in range(0, len(data), _SIZE)]
    return f'{_HEAD}{"".join(lines)})\n'.replace("'", '"')


if __name__ == "__main__":
    (ROOM / "descriptors.py").write_text(module_text(compiled()))
