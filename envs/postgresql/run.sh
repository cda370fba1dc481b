# Distributions put PostgreSQL where no PATH leads, and it refuses to run as root: who is root is nobody in a user namespace
# of its own.
PATH=$(ls -d /usr/lib/postgresql/*/bin /usr/pgsql-*/bin 2> /dev/null | sort -V | tail -n 1):$PATH
[ "$(id -u)" -ne 0 ] && exec "$@"
exec unshare --user --map-user="$(id -u nobody)" --map-group="$(id -g nobody)" -- "$@"
