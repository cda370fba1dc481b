"""Prints a configuration of Filestash: one SFTP server, and the key that it logs in there with by itself.

config.py KEY PORT FOLDER
"""

import json
import os
import pwd
import sys

key, port, folder = sys.argv[1:]
with open(key) as file:
    session = {
        "type": "sftp",
        "hostname": "127.0.0.1",
        "port": port,
        "username": pwd.getpwuid(os.getuid()).pw_name,
        "password": file.read(),  # it takes the text of a key here, too
        "path": folder,
    }
middleware = {
    "identity_provider": {"type": "passthrough", "params": json.dumps({"strategy": "direct"})},
    "attribute_mapping": {"related_backend": "SFTP", "params": json.dumps({"SFTP": session})},
}
# Without a connection of this type it refuses every login.
print(json.dumps({"connections": [{"type": "sftp", "label": "SFTP"}], "middleware": middleware}))
