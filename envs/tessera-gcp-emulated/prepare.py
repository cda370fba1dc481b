"""Create what a server of the GCP kind needs before its start: an account, and a bucket on the emulator."""

import json
import sys
import urllib.request

folder, server, bucket = sys.argv[1:]
with open(f"{folder}/account.key") as file:
    key = file.read()
# The server needs an account before it checks whether it talks to emulators. This one is never used.
account = {
    "type": "service_account",
    "project_id": "benchstudy",
    "private_key_id": "none",
    "private_key": key,
    "token_uri": "http://127.0.0.1:9/token",
    "client_email": "nobody@benchstudy.invalid",
    "client_id": "0",
}
with open(f"{folder}/account.json", "w") as file:
    json.dump(account, file)
request = urllib.request.Request(
    server + "/storage/v1/b?project=benchstudy",
    method="POST",
    data=json.dumps({"name": bucket}).encode(),
    headers={"Content-Type": "application/json"},
)
urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request)
