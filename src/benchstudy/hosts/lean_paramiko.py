"""paramiko without invoke, which it imports to run commands of a client configuration. Ours is read by `ssh -G`.

With invoke come asyncio and unittest.mock: a tenth of a second of processor time in each process that contacts a host.
"""

import sys

_is_new = "invoke" not in sys.modules
if _is_new:
    sys.modules["invoke"] = None  # type: ignore[assignment]
import paramiko as paramiko  # noqa: E402
from paramiko.pkey import UnknownKeyType as UnknownKeyType  # noqa: E402

if _is_new:
    del sys.modules["invoke"]
