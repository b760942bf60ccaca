"""The fields of both header forms, independent of the form.

The custom fields have one of three forms, or there are none. `ext_json` is the extFields object as received, still
JSON; `ext_binary` is the map as received in the binary form; both are for readers that parse directly from them.
`ext_map` is the parsed map.

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
