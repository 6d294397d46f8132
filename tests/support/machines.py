"""Machines on this machine: network namespaces, each with an address of its own, whose cable can be pulled out."""

from __future__ import annotations

import os
import shutil
import subprocess


def why_not() -> str:
    """Why there can be none here; empty where there can."""
    if shutil.which("ip") is None:
        return "the command `ip` (iproute2) is not installed"
    if os.geteuid() != 0:
        return "network namespaces need root"
    ran = subprocess.run(["ip", "netns", "add", _name(0, "try")], capture_output=True, text=True)
    subprocess.run(["ip", "netns", "del", _name(0, "try")], capture_output=True)
    return ran.stderr.strip()


class Machines:
    """So many machines, numbered from 0, around a switch to which this one belongs, too; they end with the context."""

    def __init__(self, count: int):
        self._count = count
        self._switch = _name(0, "sw")
        self._net = f"10.213.{os.getpid() % 250}"

    @property
    def here(self) -> str:
        """The address of this machine."""
        return f"{self._net}.1"

    def address(self, number: int) -> str:
        return f"{self._net}.{number + 2}"

    def command(self, number: int) -> list[str]:
        """What runs a command there."""
        return ["ip", "netns", "exec", _name(number, "ns")]

    def cut_off(self, number: int) -> None:
        """From now on nothing reaches it, nothing comes from it, and nobody hears of that."""
        _ip("link", "set", _name(number, "p"), "down")

    def connect(self, number: int) -> None:
        _ip("link", "set", _name(number, "p"), "up")

    def __enter__(self) -> Machines:
        try:
            _ip("link", "add", self._switch, "type", "bridge")
            _ip("addr", "add", f"{self.here}/24", "dev", self._switch)
            _ip("link", "set", self._switch, "up")
            for number in range(self._count):
                self._add(number)
        except BaseException:
            self.__exit__()
            raise
        return self

    def _add(self, number: int) -> None:
        namespace, port = _name(number, "ns"), _name(number, "p")
        _ip("netns", "add", namespace)
        _ip("link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", namespace)
        _ip("link", "set", port, "master", self._switch, "up")
        inside = "-n", namespace
        _ip(*inside, "addr", "add", f"{self.address(number)}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            _ip(*inside, "link", "set", device, "up")

    def __exit__(self, *error: object) -> None:
        for number in range(self._count):
            subprocess.run(["ip", "link", "del", _name(number, "p")], capture_output=True)
            subprocess.run(["ip", "netns", "del", _name(number, "ns")], capture_output=True)
        subprocess.run(["ip", "link", "del", self._switch], capture_output=True)


def _name(number: int, what: str) -> str:
    return f"pk{os.getpid()}{what}{number}"


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)
