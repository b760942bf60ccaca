"""Paths of this machine, and addresses, which look like them."""

import re
from pathlib import Path

_SCHEME = re.compile(r"\s*[A-Za-z][A-Za-z0-9+.-]*:")


def address_fault(path: str | Path) -> str:
    """Why this is no path of the file system; empty when it may be one.

    `s3://bucket/prod` as a path is the folder `s3:` where the program happens to be started.
    """
    text = str(path)
    if not _SCHEME.match(text):
        return ""
    return (f"{text!r} is an address, and only folders of this machine are served: write the path of a folder, or "
            f"./{text} for a folder of that name")
