"""Release builds: the per-record core compiled once for each CPython, against an old glibc, without its interpreter.

- `targets`   the CPythons that a release supports, and where the headers of each come from
- `compiled`  Cython's C, made once; zig compiles it for each target
- `audit`     what a wheel asks of the system it is installed on

Rule: a release is compiled or fails; the notice that a core stays interpreted is for users who build from the sdist.
"""
