"""Network file systems, on which two writers are not kept apart reliably."""

from __future__ import annotations

from pathlib import Path

_MOUNTS = Path("/proc/self/mountinfo")
_KINDS = frozenset({
    "9p", "acfs", "afs", "beegfs", "ceph", "cifs", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4",
    "ocfs2", "orangefs", "panfs", "smb2", "smb3", "smbfs", "virtiofs", "vboxsf", "davfs",
})  # fmt: skip


def on_network(path: Path) -> bool:
    """Return whether a path lies on a network file system; where the system does not say, it is taken for local."""
    try:
        lines = _MOUNTS.read_text(encoding="utf-8", errors="replace").splitlines()
        place = path.parent.resolve()
    except OSError:
        return False
    found, kind = -1, ""
    for line in lines:
        before, _, after = line.partition(" - ")
        mount = Path(before.split()[4].encode().decode("unicode_escape"))
        if place.is_relative_to(mount) and len(mount.parts) >= found:
            found, kind = len(mount.parts), after.split()[0]
    return kind in _KINDS or (
        kind.startswith("fuse.") and kind.removeprefix("fuse.") in {"sshfs", "s3fs", "rclone", *_KINDS}
    )
