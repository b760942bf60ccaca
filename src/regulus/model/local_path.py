"""Local paths, and the addresses that look like them."""

import re
from pathlib import Path

_SCHEME = re.compile(r"\s*[A-Za-z][A-Za-z0-9+.-]*:")


def address_fault(path: str | Path) -> str:
    """Why this is not a path of the file system; empty when it may be one.

    Taken as a path, `s3://bucket/prod` would be the folder `s3:` in the working directory of the program.
    """
    text = str(path)
    if not _SCHEME.match(text):
        return ""
    return (f"{text!r} is an address, and only folders of this machine are served: write the path of a folder, or "
            f"./{text} for a folder of that name")
