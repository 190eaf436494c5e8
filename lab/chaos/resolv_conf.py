"""The daemons' /etc/resolv.conf: one of the run's own, which lies over the machine's."""

import subprocess
from pathlib import Path

RESOLV_CONF = Path("/etc/resolv.conf")


class ResolvConf:
    """Names one name server. Only where mounts are this process's own and gone with it (lab/chaos/server.py).

    Raises subprocess.CalledProcessError where nothing can be mounted over the machine's.
    """

    def __init__(self, folder: Path, address: str) -> None:
        self._folder = folder
        self._number = 0
        self.replace(address)

    def replace(self, address: str) -> None:
        """Have another file in its place, as a rename does, which no mounted file allows."""
        self._file = self._folder / f"resolv-{self._number}.conf"
        self.rewrite(address)
        command = ["mount", "--bind", str(self._file), str(RESOLV_CONF)]
        subprocess.run(command, capture_output=True, check=True)
        self._number += 1

    def rewrite(self, address: str) -> None:
        """Write the file anew, as Docker does: for a moment it is empty."""
        self._file.write_text(f"nameserver {address}\n")

    def close(self) -> None:
        """Show the machine's again."""
        for _ in range(self._number):
            subprocess.run(["umount", "--lazy", str(RESOLV_CONF)], check=True)
