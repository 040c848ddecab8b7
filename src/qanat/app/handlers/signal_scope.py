"""Signals of a worker reach itself and what it starts, and no other process: Landlock, on Linux from 6.12 on.

Without it a handler could kill the broker, whose user it shares.
"""

from __future__ import annotations

import ctypes
import os
import sys
from errno import EPERM

_CREATE_RULESET, _RESTRICT_SELF = 444, 446
"""Numbers of system calls: the same wherever Linux has Landlock."""
_ASK_VERSION = 1
_VERSION_WITH_SCOPES = 6
_SCOPE_SIGNAL = 1 << 1
_PR_SET_NO_NEW_PRIVS = 38


class _Rules(ctypes.Structure):
    """What is restricted: of files and ports nothing."""

    _fields_ = (
        ("handled_access_fs", ctypes.c_uint64),
        ("handled_access_net", ctypes.c_uint64),
        ("scoped", ctypes.c_uint64),
    )


def keep_signals_inside() -> bool:
    """Restrict this process and what it starts, for good; False where the kernel cannot.

    To be called before there is a second thread: one that is there already stays as it is.
    """
    if sys.platform != "linux":
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    call = libc.syscall
    call.restype = ctypes.c_long
    if call(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_ASK_VERSION)) < _VERSION_WITH_SCOPES:
        return False
    rules = _Rules(scoped=_SCOPE_SIGNAL)
    descriptor = call(_CREATE_RULESET, ctypes.byref(rules), ctypes.c_size_t(ctypes.sizeof(rules)), ctypes.c_uint32(0))
    if descriptor < 0:
        return False
    try:
        done: int = call(_RESTRICT_SELF, ctypes.c_int(descriptor), ctypes.c_uint32(0))
        if done != 0 and ctypes.get_errno() == EPERM:
            # Who is not root may restrict itself once it can gain no privileges, as by sudo.
            libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
            done = call(_RESTRICT_SELF, ctypes.c_int(descriptor), ctypes.c_uint32(0))
        return done == 0
    finally:
        os.close(descriptor)
