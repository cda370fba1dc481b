# System packages of the machine that runs benchstudy: installs only what is missing, at once. Sourced by environment.sh.
# What measured hosts need (fio, sshfs …) is not here: provisioning installs it, from envs/.

missing=

require() { # COMMAND PACKAGE: the package is needed unless the command exists
    # sbin is not on every user's PATH, but sshd and ip are there.
    PATH="$PATH:/usr/sbin:/sbin" command -v "$1" >/dev/null || missing="$missing $2"
}

can_make_environments() { "$1" -c 'import venv, ensurepip' 2>/dev/null; }

require_python_modules() { # PYTHON: venv and ensurepip are a separate package on Debian and Ubuntu
    can_make_environments "$1" && return
    missing="$missing $("$1" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')"
}

require_commands() { # report|reproduce|test|lint
    case $1 in reproduce | lint) return 0 ;; esac
    require sshd openssh-server
    require ssh-keygen openssh-client
    [ "$1" = test ] || return 0
    require mmdebstrap mmdebstrap
    require ip iproute2
    require unshare util-linux
    require fio fio
    require jq jq
    require ab apache2-utils
    require wrk wrk
    require sshfs sshfs
    require fusermount3 fuse3
    require npm npm
    # Only for `make test-long`. Where a TeX is there, `make test` looks at tables, too.
    if [ -n "${BENCHSTUDY_TEST_LONG:-}" ]; then
        require munged munge
        require slurmctld slurmctld
        require slurmd slurmd
        require sbatch slurm-client
        require pdflatex texlive-latex-recommended
        require containerd containerd
        require runc runc
        require /usr/lib/cni/bridge containernetworking-plugins
    fi
    # Ubuntu's own chromium is a snap that cannot start in a container; Chrome works as well.
    command -v google-chrome >/dev/null || command -v chromium-browser >/dev/null || require chromium chromium
}

install_missing() {
    [ -n "$missing" ] || return 0
    missing=${missing# }
    command -v apt-get >/dev/null ||
        fail "these packages are missing (Debian's names): $missing. Install them and run make again."
    if [ "$(id -u)" = 0 ]; then
        as_root=
    elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
        as_root=sudo
    else
        fail "these packages are missing: $missing
       Neither root nor password-less sudo is available here. Run this once, then make again:
           sudo apt-get install $missing"
    fi
    say "installing $missing"
    had_sshd=$(PATH="$PATH:/usr/sbin" command -v sshd || true)
    # A fresh cloud machine runs its own apt for the first minutes: wait for its lock.
    apt="$as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o DPkg::Lock::Timeout=600"
    $apt update
    # shellcheck disable=SC2086  # a list of names
    $apt install --no-install-recommends $missing >/dev/null ||
        fail "apt-get could not install $missing: see its message above"
    # The package starts a system-wide sshd, which is not needed: benchstudy runs its own on 127.0.0.1.
    if [ -z "$had_sshd" ] && [ -d /run/systemd/system ]; then
        $as_root systemctl --quiet disable --now ssh.service ssh.socket 2>/dev/null ||
            say "note: the system's own sshd was installed and runs; stop it with: systemctl disable --now ssh"
    fi
}
