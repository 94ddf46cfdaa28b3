"""The machine's memory for processes that ask the kernel, which knows only this one's."""

import os

_of_the_kernel = os.sysconf


def _of_the_machine(name: str) -> int:
    if name != "SC_PHYS_PAGES":
        return _of_the_kernel(name)
    with open("/proc/meminfo") as file:
        kib = int(file.readline().split()[1])
    return kib * 1024 // _of_the_kernel("SC_PAGE_SIZE")


os.sysconf = _of_the_machine
