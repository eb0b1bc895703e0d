"""Where a ledger must not be: on a network file system, or at a mount point, which gives a file a second name."""

from __future__ import annotations

import os
import re
from pathlib import Path

_MOUNTS = Path("/proc/self/mountinfo")
_ESCAPED = re.compile(rb"\\([0-7]{3})")
_KINDS = frozenset({
    "9p", "acfs", "afs", "beegfs", "ceph", "cifs", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4",
    "ocfs2", "orangefs", "panfs", "smb2", "smb3", "smbfs", "virtiofs", "vboxsf", "davfs",
})  # fmt: skip


def on_network(path: Path) -> bool:
    """Return whether a file lies on a network file system; where the system does not say, it is taken for local."""
    folder, found, kind = _resolved(path).parent, -1, ""
    for mount, its_kind in _mounts() or ():
        if folder.is_relative_to(mount) and len(mount.parts) >= found:
            found, kind = len(mount.parts), its_kind
    return kind in _KINDS or (
        kind.startswith("fuse.") and kind.removeprefix("fuse.") in {"sshfs", "s3fs", "rclone", *_KINDS}
    )


def is_mount_point(path: Path) -> bool:
    """Return whether a file is a mount point, as of a container that is given the file alone.

    Where the system has no list of mount points, only one from another file system is known.
    """
    file, mounts = _resolved(path), _mounts()
    if mounts is None:
        return file.stat().st_dev != file.parent.stat().st_dev
    return any(mount == file for mount, _ in mounts)


def _resolved(path: Path) -> Path:
    """Return where a file is, whatever links lead to it."""
    return Path(os.path.realpath(path))


def _mounts() -> list[tuple[Path, str]] | None:
    """Return every mount point with its kind of file system; None where the system does not say."""
    try:
        lines = _MOUNTS.read_bytes().split(b"\n")
    except OSError:
        return None
    return [_mount(line) for line in lines if line]


def _mount(line: bytes) -> tuple[Path, str]:
    before, _, after = line.partition(b" - ")
    place = _ESCAPED.sub(lambda code: bytes([int(code[1], 8)]), before.split(b" ")[4])
    return Path(os.fsdecode(place)), os.fsdecode(after.split(b" ")[0])
