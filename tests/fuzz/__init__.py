"""A coverage-guided fuzzer at the doors of the compiled parsers, which are built by clang with AddressSanitizer.

`build` makes that build, `seeds` what the fuzzer begins with, `doors` what it may knock at, `target` one run of it, and
`python -m tests.fuzz` (`make fuzz`) all of these.
"""
