#!/bin/sh
# Installs the system packages that are missing for reports; `benchstudy setup` calls it where benchstudy itself is installed
# already. In a checkout environment.sh does that, and makes the environment.
set -eu

say() { printf 'setup: %s\n' "$*" >&2; }
fail() { printf 'setup: %s\n' "$*" >&2; exit 1; }

. "$(dirname "$0")/packages.sh"
require_commands report
install_missing
