#!/bin/sh
# Makes .venv exactly as a lock says, and installs missing system packages.
#
#   setup/environment.sh            what reports need: requirements.lock
#   setup/environment.sh reproduce  the same without ssh: what a crate's reports need
#   setup/environment.sh test       what the test suite needs: requirements-dev.lock, which contains requirements.lock
#   setup/environment.sh lint       the same without any system package
#
# A second run finds everything in a fraction of a second. Nothing here asks questions. BENCHSTUDY_PYTHON=python3.13
# chooses another Python than the one that is found here.
set -eu
cd "$(dirname "$0")/.."
. setup/packages.sh

venv=.venv
purpose=${1:-report}

say() { printf 'setup: %s\n' "$*" >&2; }
fail() { printf 'setup: %s\n' "$*" >&2; exit 1; }

new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

# The distribution's own Python first, because it is compiled with profiles: one that pyenv compiled in its default way
# takes 5 to 40 % more processor time. One that can make environments needs no package for that.
find_python() {
    candidates=${BENCHSTUDY_PYTHON:-/usr/bin/python3 python3 python3.11 python3.12 python3.13 python3.14}
    for able in can_make_environments true; do
        for candidate in $candidates; do
            if new_enough "$candidate" && "$able" "$candidate"; then
                echo "$candidate"
                return
            fi
        done
    done
    found=$("${BENCHSTUDY_PYTHON:-python3}" --version 2>&1) || found="no ${BENCHSTUDY_PYTHON:-python3}"
    fail "Python 3.11 or newer is needed, but this is $found.
       Install one beside it (on Ubuntu 22.04: apt-get install python3.11 python3.11-venv) and run make again."
}

# uv does not read pip's settings: pass on those that decide where packages come from. What the user set for uv
# itself, or first in pip's own order, has priority.
use_pip_settings() {
    "$venv/bin/python" -m pip config list > "$venv/pip-settings"
    while IFS== read -r key value; do
        value=${value#\'}
        value=${value%\'}
        case $key in
            *.index-url) export UV_DEFAULT_INDEX="${UV_DEFAULT_INDEX:-$value}" ;;
            *.extra-index-url) export UV_INDEX="${UV_INDEX:-$value}" ;;
            *.find-links) export UV_FIND_LINKS="${UV_FIND_LINKS:-$value}" ;;
            *.cert) export SSL_CERT_FILE="${SSL_CERT_FILE:-$value}" ;;
        esac
    done < "$venv/pip-settings"
}

make_venv() {
    python=$1
    # A folder that was moved, or whose Python is gone, cannot be repaired.
    if ! [ "$venv/bin/python" -ef "$real" ] || ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
        say "making $venv with $("$python" --version)"
        "$python" -m venv --clear "$venv"
    fi
    use_pip_settings
    # uv's own entry of the lock, so that the installer is pinned by hash like everything it installs.
    awk '/^uv==/ { taking = 1; print; next } /^[^ ]/ { taking = 0 } taking' "$lock" > "$venv/uv-requirement.txt"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps \
        -r "$venv/uv-requirement.txt"
    say "installing what $lock pins"
    # Unless PYTHONDONTWRITEBYTECODE is set, as in many containers, Python keeps compiled modules. If it is set, every job
    # would compile all its imports, which is half of its start-up time. So everything is compiled here, once.
    compile=${PYTHONDONTWRITEBYTECODE:+--compile-bytecode}
    # shellcheck disable=SC2086  # an option or nothing
    "$venv/bin/uv" pip sync --quiet $compile --python "$venv/bin/python" --require-hashes "$lock"
    "$venv/bin/uv" pip install --quiet --python "$venv/bin/python" --no-deps --no-build-isolation --editable .
    [ -z "$compile" ] || "$venv/bin/python" -m compileall -q src
}

python=$(find_python)
require_python_modules "$python"
require_commands "$purpose"
install_missing

stamp_file="$venv/benchstudy-stamp"
# An environment for tests has everything that reports need, and stays one.
case $purpose:$(cat "$stamp_file" 2>/dev/null) in
    test:* | lint:* | *:requirements-dev.lock\ *) lock=requirements-dev.lock ;;
    *) lock=requirements.lock ;;
esac
# The folder's own path counts too: scripts in a virtual environment contain absolute paths.
real=$("$python" -c 'import os, sys; print(os.path.realpath(sys.executable))')
stamp="$lock $(cat "$lock" pyproject.toml setup/environment.sh | sha256sum | cut -d' ' -f1) $(pwd -P) $real"
if [ "$(cat "$stamp_file" 2>/dev/null)" != "$stamp" ]; then
    make_venv "$python"
    printf '%s\n' "$stamp" > "$stamp_file"
fi
