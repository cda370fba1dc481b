"""Which folders other users may change. BOOTSTRAP begins with this text, so every Python 3 must understand it."""

import grp
import os
import pwd
import stat


def replaceable_in(folder: str, owners: tuple = ()) -> str:
    """The topmost part of a real path in which another user may replace our folders, as in no sticky folder; else "".

    A part that belongs to none of the `owners` counts, too, if any are given. What others cannot reach is safe.
    """
    names = folder.split("/")
    for depth in range(2, len(names) + 1):
        part = "/".join(names[:depth])
        info = os.stat(part)
        if owners and info.st_uid not in owners:
            return part
        if writable_by_others(info) and not info.st_mode & stat.S_ISVTX:
            return part
        if not _gives_others(info, stat.S_IXOTH):
            break
    return ""


def refusal(folder: str) -> str:
    """Why a real folder is no place for ours, and what to do; "" if it is one."""
    part = replaceable_in(folder)
    how = "`chmod +t %s`, as /tmp has it, or name a folder elsewhere" % part
    return part and "is no place for our files, because others may replace folders in %s: %s" % (part, how)


def writable_by_others(info: os.stat_result) -> bool:
    return _gives_others(info, stat.S_IWOTH)


def _gives_others(info: os.stat_result, right: int) -> bool:
    group_right = right << 3
    return bool(info.st_mode & right or (info.st_mode & group_right and not _is_private(info.st_gid)))


def _is_private(gid: int) -> bool:
    """Whether a group is that of root or our own, as distributions make one for each user, without further members."""
    try:
        group, user = grp.getgrgid(gid), pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return False
    return group.gr_name in (user, "root") and {user, "root"}.issuperset(group.gr_mem)
