"""`make fuzz`: build the parsers with AddressSanitizer, and let the fuzzer at them.

    python -m tests.fuzz --seconds 3600 --corpus build/fuzz/corpus
    python -m tests.fuzz --again build/fuzz/findings/crash-...

Ends with status 1 at the first finding: an error that is not documented, a report of AddressSanitizer, an input that
takes too long or too much memory. The limits are in `run`.
"""

import argparse
import sys
from pathlib import Path

from tests.fuzz.build import BUILD, build
from tests.fuzz.run import Outcome, again, fuzz

LOG_SHOWN = 6_000
"""Characters of the log's end that are shown with a finding; all of it is in build/fuzz/log."""


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--corpus", type=Path, help="where new inputs are kept, and taken up again")
    parser.add_argument("--again", type=Path, help="run this one input, and show what comes of it")
    return parser.parse_args()


def _tell(outcome: Outcome) -> None:
    print(f"{outcome.executions} executions, {outcome.executions_per_second} a second; branches "
          f"{outcome.coverage_of_seeds} of the seeds, {outcome.coverage} in the end; {outcome.new_units} new inputs")
    if outcome.fault:
        print(f"{outcome.log[-LOG_SHOWN:]}\n{outcome.fault}")
        for each in outcome.findings:
            print(f"run it again: make fuzz FUZZ='--again {each}'")


def main() -> int:
    arguments = _arguments()
    print("compiling the parsers with clang and AddressSanitizer ...", flush=True)
    made = build()
    if arguments.again:
        status, log = again(made, arguments.again)
        print(log)
        return 1 if status else 0
    outcome = fuzz(made, arguments.seconds, arguments.corpus)
    (BUILD / "log").write_text(outcome.log, encoding="utf-8")
    _tell(outcome)
    return 1 if outcome.fault else 0


if __name__ == "__main__":
    sys.exit(main())
