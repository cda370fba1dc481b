#!/bin/sh
# Installs the missing system packages for reports. `benchstudy setup` calls it if benchstudy itself is already installed.
# In a checkout environment.sh does this, and makes the environment.
set -eu

say() { printf 'setup: %s\n' "$*" >&2; }
fail() { printf 'setup: %s\n' "$*" >&2; exit 1; }

. "$(dirname "$0")/packages.sh"
require_commands report
install_missing
