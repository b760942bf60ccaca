"""RocketMQ's own evaluator of SQL92 conditions, asked about ours.

As a program it writes tests/golden/sql-5.3.3.jsonl anew: python -m tests.interop.sql_verdicts
"""

import json
import subprocess
from pathlib import Path

from tests.interop.toolchain import java_classpath, tool
from tests.sql_conditions import MESSAGES, WRITTEN, made

GOLDEN = Path(__file__).parents[1] / "golden" / "sql-5.3.3.jsonl"


def java_verdicts(conditions: list[str]) -> list[str]:
    """`p`, or for each message 1, 0 or e, by `conditions`.

    In brackets, because RocketMQ reads on to no end: without them it takes `a > 5 b` for `a > 5`.
    """
    lines = ["\x1f".join(["M", *(text for pair in properties.items() for text in pair)]) for properties in MESSAGES]
    lines += [f"E\x1f({condition}\n)".replace("\n", "\x1e") for condition in conditions]
    asked = subprocess.run(
        [tool("java"), "-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8", "-cp", java_classpath("5.3.3"),
         "SqlVerdicts"], input="\n".join(lines) + "\n", capture_output=True, encoding="utf-8", check=True, timeout=120)
    return asked.stdout.splitlines()


def write_golden() -> None:
    conditions = list(dict.fromkeys([*WRITTEN, *made(1, 1_500)]))
    lines = [json.dumps({"messages": MESSAGES})]
    lines += [json.dumps({"condition": condition, "verdicts": verdicts})
              for condition, verdicts in zip(conditions, java_verdicts(conditions), strict=True)]
    GOLDEN.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write_golden()
