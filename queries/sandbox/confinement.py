"""Confinement by the system of a process that runs a person's SQL.

The gate (`queries.sandbox.gate`) and DuckDB's own settings decide what a query may do. This module is for the day when
one of them has a hole: a process that has been taken over still reads no file but the warehouse's, opens no connection,
starts no program, and ends in time. Linux only; `measures` reports what this kernel offers.
"""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import signal
import struct
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_LIBC: Final = ctypes.CDLL(None, use_errno=True)

_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS, _PR_GET_SECCOMP = 1, 38, 21
_PR_SET_NAME, _PR_SET_VMA = 15, 0x53564D41
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
"""Landlock's three system calls: the same numbers on all processors."""

_READ_FILE, _READ_DIR = 1 << 2, 1 << 3
_O_PATH: Final = 0o10000000
NOT_AVAILABLE: Final = "not available"


class ConfinementError(OSError):
    """The kernel offers a measure and refused it: a person's SQL is not run then."""


@dataclass(frozen=True)
class Measures:
    """Means of this system to confine a process."""

    landlock: int
    """ABI version; 0 where the kernel lacks it or has it switched off."""

    seccomp: bool

    def __str__(self) -> str:
        """For people."""
        landlock = f"Landlock ABI {self.landlock}" if self.landlock else f"Landlock {NOT_AVAILABLE}"
        return f"{landlock}, seccomp" + ("" if self.seccomp else f" {NOT_AVAILABLE}")

    @property
    def complete(self) -> bool:
        """Whether nothing is lacking."""
        return self.landlock > 0 and self.seccomp


def measures() -> Measures:
    """Means that this kernel offers on this processor."""
    seccomp = _processor() is not None and _LIBC.prctl(_PR_GET_SECCOMP, 0, 0, 0, 0) >= 0
    return Measures(landlock=max(_system_call(_CREATE_RULESET, None, 0, 1), 0), seccomp=seccomp)


def _system_call(number: int, *arguments: int | bytes | None) -> int:
    """Result of a system call: -1 where it failed, and `ctypes.get_errno` has the reason."""
    whole = (ctypes.c_long(each) if isinstance(each, int) else each for each in arguments)
    return int(_LIBC.syscall(ctypes.c_long(number), *whole))


# Life and limits --------------------------------------------------------------------------------------------------


def die_with(parent: int) -> None:
    """End when the parent ends, at a limit, on SIGTERM and on SIGHUP, even if the parent ignored those."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    for each in (signal.SIGTERM, signal.SIGHUP, signal.SIGALRM, signal.SIGXFSZ):
        signal.signal(each, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    if os.getppid() != parent:  # it ended before the request above was in force
        os.kill(os.getpid(), signal.SIGKILL)


class _Sigevent(ctypes.Structure):
    _fields_ = (
        ("value", ctypes.c_void_p),
        ("signo", ctypes.c_int),
        ("notify", ctypes.c_int),
        ("padding", ctypes.c_char * 48),
    )


class _Itimerspec(ctypes.Structure):
    _fields_ = (
        ("every_s", ctypes.c_long),
        ("every_ns", ctypes.c_long),
        ("value_s", ctypes.c_long),
        ("value_ns", ctypes.c_long),
    )


def end_after(seconds: float) -> None:
    """A timer of the kernel that kills this process then: neither a handler nor a mask of signals stops it.

    The parent has its own, shorter limit. This one counts when the parent is stopped or hangs.
    """
    seconds = max(seconds, 1.0)
    timer = ctypes.c_void_p()
    event = _Sigevent(signo=signal.SIGKILL, notify=0)
    when = _Itimerspec(0, 0, int(seconds), int(seconds % 1 * 1e9))
    create, start = getattr(_LIBC, "timer_create", None), getattr(_LIBC, "timer_settime", None)
    if create is None or start is None or create(1, ctypes.byref(event), ctypes.byref(timer)) != 0:
        signal.setitimer(signal.ITIMER_REAL, seconds)
    elif start(timer, 0, ctypes.byref(when), None) != 0:
        raise ConfinementError(ctypes.get_errno(), "the timer that ends a query cannot be set")


def limit(*, memory: int, output: int, cpu_s: int) -> None:
    """Limits of the system: bytes of memory, bytes of output, seconds of all cores together; no core dumps."""
    for kind, limit in (
        (resource.RLIMIT_DATA, memory),
        (resource.RLIMIT_FSIZE, output),
        (resource.RLIMIT_CPU, cpu_s),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(kind)[1]
        value = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(kind, (value, value))


def no_new_privileges() -> None:
    """Nothing that this process starts gets more rights than it has; Landlock and seccomp need it."""
    if _LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise ConfinementError(ctypes.get_errno(), "no_new_privs cannot be set")


# Landlock ---------------------------------------------------------------------------------------------------------


def restrict_to_reading(places: Iterable[Path], *, listed: Iterable[Path] = ()) -> None:
    """Allow this thread, and threads that it starts, to read these files and folders, and no other access to files.

    No TCP either (ABI 4), and no abstract socket of, nor signal to, a process outside (ABI 6). It can be called again
    to allow less. Where the kernel has no Landlock, nothing happens.

    Args:
        places: files, and folders with all below them; those that do not exist are left out.
        listed: folders whose names (not contents) may be read, with those of all below them.
    """
    abi = measures().landlock
    if not abi:
        return
    attributes = struct.pack("=QQQ", _files_handled(abi), 0b11, 0b11)[: 8 if abi < 4 else 16 if abi < 6 else 24]
    ruleset = _checked(_system_call(_CREATE_RULESET, attributes, len(attributes), 0))
    try:
        for place in places:
            _allow(ruleset, place, _READ_FILE | (_READ_DIR if place.is_dir() else 0))
        for folder in listed:
            _allow(ruleset, folder, _READ_DIR)
        _checked(_system_call(_RESTRICT_SELF, ruleset, 0))
    finally:
        os.close(ruleset)


def _files_handled(abi: int) -> int:
    """All rights to files that an ABI defines: those that no rule grants are refused.

    >>> [bin(_files_handled(abi)).count("1") for abi in (1, 2, 3, 4, 5, 7)]
    [13, 14, 15, 15, 16, 16]
    """
    n_rights = {1: 13, 2: 14, 3: 15, 4: 15}.get(abi, 16)
    return (1 << n_rights) - 1


def _allow(ruleset: int, place: Path, rights: int) -> None:
    try:
        descriptor = os.open(place, _O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return
    try:
        rule = struct.pack("=Qi", rights, descriptor)
        _checked(_system_call(_ADD_RULE, ruleset, 1, rule, 0))
    finally:
        os.close(descriptor)


def _checked(result: int) -> int:
    if result < 0:
        raise ConfinementError(ctypes.get_errno(), "Landlock refused a rule")
    return result


ENGINE: Final = (Path("/proc/self/cgroup"), Path("/sys/fs/cgroup"), Path("/sys/devices/system/cpu"))
"""Files that DuckDB reads when it opens a database, for its memory and cores; it fails where it may not read them."""


_ALLOCATORS: Final = ("/proc/sys/vm/overcommit_memory", "/proc/meminfo")
"""Read by allocators as they start; jemalloc maps in a way that RLIMIT_DATA does not count where it may not."""


def interpreter() -> tuple[list[Path], list[Path]]:
    """Paths that Python needs to import our packages: places to read, and folders to list."""
    paths = sysconfig.get_paths()
    system = ["/usr/lib", "/usr/lib64", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/localtime", *_ALLOCATORS]
    prefixes = [f"{prefix}/lib" for prefix in (sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix)]
    libraries = [paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    # Those of a user (pip install --user), or added by a path file: the interpreter's own do not name them.
    added = [each for each in sys.path if Path(each).name in {"site-packages", "dist-packages"}]
    read = [*map(str, ENGINE), *system, *prefixes, *libraries, *added, str(Path(__file__).parents[1])]
    return [Path(each) for each in dict.fromkeys(read)], [
        Path(each) for each in sys.path if each and Path(each).is_dir()
    ]


# seccomp ----------------------------------------------------------------------------------------------------------

_DENIED: Final[dict[str, tuple[int | None, int | None]]] = {
    # network
    "socket": (41, 198),
    "socketpair": (53, 199),
    "connect": (42, 203),
    "bind": (49, 200),
    "listen": (50, 201),
    "accept": (43, 202),
    "accept4": (288, 242),
    "sendto": (44, 206),
    "sendmsg": (46, 211),
    "sendmmsg": (307, 269),
    # other programs and processes
    "execve": (59, 221),
    "execveat": (322, 281),
    "fork": (57, None),
    "vfork": (58, None),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "kill": (62, 129),
    "tkill": (200, 130),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "setpgid": (109, 154),
    "setsid": (112, 157),
    # files, other than reading those that may be read
    "open_by_handle_at": (304, 265),
    "name_to_handle_at": (303, 264),
    "creat": (85, None),
    "truncate": (76, 45),
    "rename": (82, None),
    "renameat": (264, 38),
    "renameat2": (316, 276),
    "unlink": (87, None),
    "unlinkat": (263, 35),
    "mkdir": (83, None),
    "mkdirat": (258, 34),
    "rmdir": (84, None),
    "link": (86, None),
    "linkat": (265, 37),
    "symlink": (88, None),
    "symlinkat": (266, 36),
    "mknod": (133, None),
    "mknodat": (259, 33),
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "chown": (92, None),
    "fchown": (93, 55),
    "lchown": (94, None),
    "fchownat": (260, 54),
    "utime": (132, None),
    "utimes": (235, None),
    "utimensat": (280, 88),
    "futimesat": (261, None),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "memfd_create": (319, 279),
    "inotify_init": (253, None),
    "inotify_init1": (294, 26),
    "inotify_add_watch": (254, 27),
    "fanotify_init": (300, 262),
    "fanotify_mark": (301, 263),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "quotactl": (179, 60),
    # the kernel's large surfaces
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_setup": (206, 0),
    "io_submit": (209, 2),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "setns": (308, 268),
    "unshare": (272, 97),
    "reboot": (169, 142),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "acct": (163, 89),
    "syslog": (103, 116),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "adjtimex": (159, 171),
    "clock_adjtime": (305, 266),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "iopl": (172, None),
    "ioperm": (173, None),
    "modify_ldt": (154, None),
    "personality": (135, 92),
    "vhangup": (153, 58),
    "shmget": (29, 194),
    "shmat": (30, 196),
    "msgget": (68, 186),
    "semget": (64, 190),
    "mq_open": (240, 180),
    # its own limits and rights
    "setuid": (105, 146),
    "setgid": (106, 144),
    "setreuid": (113, 145),
    "setregid": (114, 143),
    "setresuid": (117, 147),
    "setresgid": (119, 149),
    "setgroups": (116, 159),
    "setfsuid": (122, 151),
    "setfsgid": (123, 152),
    "capset": (126, 91),
    "setrlimit": (160, 164),
    "setpriority": (141, 140),
    "ioprio_set": (251, 30),
    "sched_setscheduler": (144, 119),
    "sched_setattr": (314, 274),
    "sched_setparam": (142, 118),
    "setitimer": (38, 103),
    "alarm": (37, None),
    "timer_create": (222, 107),
    "timer_settime": (223, 110),
    "timer_delete": (226, 111),
    "seccomp": (317, 277),
}
"""System calls that are refused, with their numbers on x86_64 and aarch64 (None: it has no such call)."""

_NEW_FROM: Final = 424
"""From here on numbers are the same on all processors, and callers have a fallback: for io_uring, pidfds, the new calls
for mounts, and all that kernels will add, the filter returns the error of a kernel that lacks them."""


@dataclass(frozen=True)
class _Processor:
    """Numbers of a processor: of its kind in the kernel's audit, and of the calls that are allowed in part."""

    audit: int
    column: int
    clone: int
    tgkill: int
    prctl: int
    prlimit: int
    open: int | None
    openat: int
    mmap: int
    mprotect: int


_PROCESSORS: Final = {
    "x86_64": _Processor(0xC000003E, 0, 56, 234, 157, 302, 2, 257, 9, 10),
    "aarch64": _Processor(0xC00000B7, 1, 220, 131, 167, 261, None, 56, 222, 226),
}
_CLONE_THREAD: Final = 0x10000
_WRITES: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC

_KILL, _ALLOW, _REFUSE, _NO_SUCH_CALL = 0x80000000, 0x7FFF0000, 0x00050000 | 1, 0x00050000 | 38
_LOAD, _IF_EQUAL, _IF_AT_LEAST, _IF_ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_Step = tuple[int, int, int, int]


def _processor() -> _Processor | None:
    return _PROCESSORS.get(platform.machine()) if sys.byteorder == "little" and sys.maxsize > 2**32 else None


def refuse_system_calls() -> None:
    """Have the kernel refuse, to all threads, what a query never needs. Nothing happens on processors not known here.

    To be called last: it also takes away what confines (timers, limits, Landlock), so that no later call can undo it.
    """
    kind = _processor()
    if kind is None or not measures().seccomp:
        return
    steps = program(kind, os.getpid())
    code = b"".join(struct.pack("=HBBI", *step) for step in steps)
    buffer = ctypes.create_string_buffer(code, len(code))
    filters = struct.pack("@HP", len(steps), ctypes.addressof(buffer))
    number = _DENIED["seccomp"][kind.column]
    # SECCOMP_SET_MODE_FILTER, with SECCOMP_FILTER_FLAG_TSYNC: threads that libraries started at import have it too.
    if number is None or _system_call(number, 1, 1, filters) != 0:
        raise ConfinementError(ctypes.get_errno(), "the kernel refused the filter of system calls")


def program(kind: _Processor, pid: int) -> list[_Step]:
    """The filter as BPF: (code, jump if true, jump if false, operand)."""
    return [
        (_LOAD, 0, 0, 4),
        (_IF_EQUAL, 1, 0, kind.audit),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, 0),
        (_IF_AT_LEAST, 0, 1, _NEW_FROM),  # those of x32 too, whose numbers begin at 2^30
        (_RETURN, 0, 0, _NO_SUCH_CALL),
        *_in_part(kind, pid),
        *(
            step
            for numbers in _DENIED.values()
            if (number := numbers[kind.column]) is not None
            for step in ((_IF_EQUAL, 0, 1, number), (_RETURN, 0, 0, _REFUSE))
        ),
        (_RETURN, 0, 0, _ALLOW),
    ]


def _in_part(kind: _Processor, pid: int) -> list[_Step]:
    """Calls that depend on an argument: threads but no processes, signals to itself, reading but no writing."""
    return [
        *_call(kind.clone, _argument(0), (_IF_ANY_BIT, _CLONE_THREAD), allow=True),
        *_call(kind.tgkill, _argument(0), (_IF_EQUAL, pid), allow=True),
        *_call(kind.prctl, _argument(0), (_IF_EQUAL, _PR_SET_NAME), (_IF_EQUAL, _PR_SET_VMA), allow=True),
        *_call(kind.prlimit, _argument(2), (_IF_AT_LEAST, 1), allow=False),
        *_call(kind.prlimit, _argument(2) + 4, (_IF_AT_LEAST, 1), allow=False),
        *([] if kind.open is None else _call(kind.open, _argument(1), (_IF_ANY_BIT, _WRITES), allow=False)),
        *_call(kind.openat, _argument(2), (_IF_ANY_BIT, _WRITES), allow=False),
        *_call(kind.mmap, _argument(2), (_IF_ANY_BIT, 4), allow=False),
        *_call(kind.mprotect, _argument(2), (_IF_ANY_BIT, 4), allow=False),
    ]


def _argument(number: int) -> int:
    """Offset of the lower half of an argument."""
    return 16 + 8 * number


def _call(number: int, offset: int, *tests: tuple[int, int], allow: bool) -> list[_Step]:
    """A call whose argument decides: with `allow`, one of the tests must hold; without, none may.

    The number of the call is loaded again at the end: the steps that follow compare it.
    """
    yes, no = (_ALLOW, _REFUSE) if allow else (_REFUSE, None)
    body: list[_Step] = []
    for left, (code, operand) in zip(range(len(tests) - 1, -1, -1), tests, strict=True):
        body.append((code, left, 0 if left else 1, operand))
    body.append((_RETURN, 0, 0, yes))
    if no is not None:
        body.append((_RETURN, 0, 0, no))
    return [(_IF_EQUAL, 0, len(body) + 2, number), (_LOAD, 0, 0, offset), *body, (_LOAD, 0, 0, 0)]


def reads_of(root: Path, folders: Sequence[str]) -> list[Path]:
    """A warehouse's folders for readers; with those to which a folder or a link in them leads (another disk)."""
    tops = [root / name for name in folders]
    links = [each for top in tops for each in (*top.glob("*"), *top.glob("*/*")) if each.is_symlink()]
    return [each.resolve() for each in (*tops, *links)]
