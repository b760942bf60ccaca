"""What both header forms carry, before anyone knows which form it was.

The custom fields stand in one of three forms, or there are none: `ext_json` is the extFields object as it came, still
JSON, `ext_binary` the map as it came in the binary form, both for those who parse straight from it; `ext_map` is the
parsed map.

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
        self.ext_map: dict[str, str] | None = None
        self.ext_json: bytes | None = None
        self.ext_binary: bytes | None = None
