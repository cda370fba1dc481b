# Writes the one account, whose files are the storage's: account.sh KEY HOST-KEY PORT FOLDER
key=$(awk '{printf "%s\\n", $0}' "$1")
print=$(ssh-keygen -lf "$2" | cut -d " " -f 2)
cat << END
{"version": 16, "users": [{"username": "bench", "password": "{{secret.password}}", "status": 1,
  "home_dir": "{{dir}}/home", "permissions": {"/": ["*"]}, "filesystem": {"provider": 5, "sftpconfig": {
    "endpoint": "127.0.0.1:$3", "username": "$(id -un)", "prefix": "$4", "fingerprints": ["$print"],
    "private_key": {"status": "Plain", "payload": "$key"}}}}]}
END
