"""What `benchstudy check` examines."""

from benchstudy.measuring.hostcheck import HostCheck
from sixth_family.config import NapConfig


def check_host(config: NapConfig, host: HostCheck) -> None:
    host.ok(f"{len(config.lengths)} lengths of naps can be taken by {host.which('python3')}")
