# unprivileged.sh PROGRAM [ARGUMENT]...
#
# Starts a program of PostgreSQL, which distributions put where no PATH leads, and which refuses to run as root. Root
# therefore goes into a user namespace of its own and is nobody there: no account is needed, no file changes its owner,
# and whoever looks after root's processes can look after these.
newest=$(ls -d /usr/lib/postgresql/*/bin /usr/pgsql-*/bin 2> /dev/null | sort -V | tail -n 1)
PATH=${newest:+$newest:}$PATH
if [ "$(id -u)" -ne 0 ]; then
    exec "$@"
fi
if ! unshare --user true 2> /dev/null; then
    echo "PostgreSQL refuses to run as root, and root may make no user namespace here, as in many containers: name another user in the study (hosts.HOST.user)" >&2
    exit 1
fi
exec unshare --user --map-user="$(id -u nobody)" --map-group="$(id -g nobody)" -- "$@"
