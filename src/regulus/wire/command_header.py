"""What both header forms carry, before anyone knows which form it was.

`_ext_json` is the extFields object as it came, still JSON, for those who parse straight from it; `_ext` is the parsed
map; `_ext_binary` is the map in the binary form. At most one of the three is set.

Source: RemotingCommand.
"""


class CommandHeader:
    def __init__(self) -> None:
        self.code: int = 0
        self.language: int = 0
        self.version: int = 0
        self.opaque: int = 0
        self.flag: int = 0
        self.remark: str | None = None
        self._ext: dict[str, str] | None = None
        self._ext_json: bytes | None = None
        self._ext_binary: bytes | None = None
