"""paramiko's transport, mended where it stalls or waits for ever. Part of the SSH door (`remote.py`)."""

import threading
import time

import paramiko
from paramiko.common import cMSG_GLOBAL_REQUEST
from paramiko.packet import Packetizer

# Seconds without a byte from the host after which we ask for a sign of life, and after which we give it up.
PROBE_AFTER_S = 10.0
SILENCE_LIMIT_S = 30.0


class SilenceDetector(Packetizer):
    """Ends a connection whose other side fell silent: a black hole sends no error.

    paramiko's own keepalive asks for no answer, so it notices nothing that TCP does not notice; TCP in turn knows
    nothing about what lies behind a jump host.
    """

    # Key lifetime is left to OpenSSH, whose limit for AES is 2^32 blocks (64 GiB); this one is for other servers.
    REKEY_BYTES = 1 << 35
    REKEY_PACKETS = 1 << 30

    def __init__(self, sock):
        super().__init__(sock)
        self._heard = time.monotonic()
        self._asked = 0.0
        self.ask_for_sign_of_life = None

    def read_all(self, n, check_rekey=False):
        data = super().read_all(n, check_rekey)
        self._heard = time.monotonic()
        return data

    def _check_keepalive(self):
        """Called by paramiko every 0.1 s in which nothing arrived."""
        now = time.monotonic()
        silent_s = now - self._heard
        if silent_s > SILENCE_LIMIT_S:
            raise EOFError(f"silent for {SILENCE_LIMIT_S:.0f} s")
        if self.ask_for_sign_of_life and silent_s > PROBE_AFTER_S and now - self._asked > PROBE_AFTER_S:
            self._asked = now
            self.ask_for_sign_of_life()


class SshTransport(paramiko.Transport):
    """Prefers AES-GCM, and never blocks its own reading thread while keys are exchanged.

    In a key exchange paramiko holds back every message until the new keys are there. Some messages are sent by the very
    thread that must read the host's part of the exchange (the answer to a channel's close, a keepalive): it then waits
    for itself until its 30 s are over. Such messages are put aside here and sent when the keys are there.
    """

    # Fastest first; one pass does both encryption and integrity.
    _preferred_ciphers = (
        "aes128-gcm@openssh.com",
        "aes256-gcm@openssh.com",
        "aes128-ctr",
        "aes192-ctr",
        "aes256-ctr",
    )

    def __init__(self, sock):
        super().__init__(sock, packetizer_class=SilenceDetector)
        self._put_aside: list[paramiko.Message] = []

    def watch_for_silence(self) -> None:
        self.packetizer.ask_for_sign_of_life = self._ask_for_sign_of_life

    def _ask_for_sign_of_life(self) -> None:
        message = paramiko.Message()
        message.add_byte(cMSG_GLOBAL_REQUEST)
        message.add_string("keepalive@openssh.com")
        message.add_boolean(True)  # an answer is wanted, even if it is "unknown request"
        self._send_user_message(message)

    def _send_user_message(self, data):
        if threading.current_thread() is self and not self.clear_to_send.is_set():
            self._put_aside.append(data)
        else:
            super()._send_user_message(data)

    def _parse_newkeys(self, m):
        super()._parse_newkeys(m)
        waiting, self._put_aside = self._put_aside, []
        for message in waiting:
            super()._send_user_message(message)
