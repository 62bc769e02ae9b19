"""Executes a program for which the kernel refuses a system call, as an old kernel, a sandbox or a container's seccomp
profile does.

    python3 refuse.py CALL[:FIRST_ARGUMENT] ERRNO PROGRAM [ARGUMENT...]
    python3 refuse.py waitid:3 EINVAL muster run train.py
"""
import ctypes
import errno
import os
import platform
import struct
import sys

# Audit architecture and system call numbers.
ARCHITECTURES = {
    "x86_64": (0xC000003E, {"waitid": 247, "prctl": 157, "timerfd_create": 283, "clone3": 435, "pidfd_open": 434,
                            "timer_create": 222}),
    "aarch64": (0xC00000B7, {"waitid": 95, "prctl": 167, "timerfd_create": 85, "clone3": 435, "pidfd_open": 434,
                             "timer_create": 107}),
}
AVAILABLE = platform.machine() in ARCHITECTURES

P_PIDFD, PR_SET_CHILD_SUBREAPER = 3, 36

LOAD_WORD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, REFUSE = 0x7FFF0000, 0x00050000
NUMBER_AT, ARCHITECTURE_AT, FIRST_ARGUMENT_AT = 0, 4, 16
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2


def install(call, first_argument, error):
    architecture, numbers = ARCHITECTURES[platform.machine()]
    wanted = [(ARCHITECTURE_AT, architecture), (NUMBER_AT, numbers[call])]
    if first_argument is not None:
        wanted.append((FIRST_ARGUMENT_AT, first_argument))
    program = []
    for index, (offset, value) in enumerate(wanted):
        program += [(LOAD_WORD, 0, 0, offset), (JUMP_IF_EQUAL, 0, 2 * (len(wanted) - index) - 1, value)]
    program += [(RETURN, 0, 0, REFUSE | error), (RETURN, 0, 0, ALLOW)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *instruction) for instruction in program))
    header = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    for arguments in ((PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, header, 0, 0)):
        if libc.prctl(*arguments) != 0:
            sys.exit(f"refuse.py: prctl{arguments}: {os.strerror(ctypes.get_errno())}")


def command(call, error, first_argument=None):
    """The command prefix for a program."""
    name = call if first_argument is None else f"{call}:{first_argument}"
    return [sys.executable, "-S", "-E", os.path.abspath(__file__), name, error]


def main():
    name, _, argument = sys.argv[1].partition(":")
    install(name, int(argument) if argument else None, getattr(errno, sys.argv[2]))
    os.execvp(sys.argv[3], sys.argv[3:])


if __name__ == "__main__":
    main()
