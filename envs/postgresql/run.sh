# Distributions put PostgreSQL where no PATH leads, and it refuses to run as root: who is root is nobody in a user namespace
# of its own.
PATH=$(ls -d /usr/lib/postgresql/*/bin /usr/pgsql-*/bin 2> /dev/null | sort -V | tail -n 1):$PATH
[ "$(id -u)" -ne 0 ] && exec "$@"
if ! unshare --user true 2> /dev/null; then
    echo "PostgreSQL refuses to run as root, and root may make no user namespace here, as in many containers: name another user in the study (hosts.HOST.user)" >&2
    exit 1
fi
exec unshare --user --map-user="$(id -u nobody)" --map-group="$(id -g nobody)" -- "$@"
