#!/bin/sh
# Runs a job's script as another machine would: it sees none of the processes here, has a name of its own, and of what
# lies beside the project's folder the project alone. Prints the process id that stands for the job.
#
#     on_a_node.sh PROJECT SCRIPT
set -eu
if [ "$1" != --inside ]; then
    setsid unshare --pid --fork --kill-child --mount --mount-proc --uts "$0" --inside "$@" \
        </dev/null >>"$1/said-on-node" 2>&1 &
    echo $!
    exit
fi
hostname node-b
mount -t tmpfs none /mnt
mkdir /mnt/project
mount --bind "$2" /mnt/project
for hidden in "${2%/*}" /run /dev/shm; do
    mount -t tmpfs none "$hidden"
done
mkdir "$2"
mount --move /mnt/project "$2"
cd "$2"
exec sh "$3"
