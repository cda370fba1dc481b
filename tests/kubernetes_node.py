"""Kubernetes on this machine: one node of etcd, API server, controllers, scheduler, kubelet and containerd.

All of it runs in its own network, mount and process namespaces, and ends with the process that holds them. It needs
root, Go, and Debian's containerd, runc and containernetworking-plugins.
"""

import io
import json
import os
import re
import shlex
import shutil
import subprocess
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any

import two_hosts
from conftest import CHECKOUT
from waiting import until

_PLUGINS = Path("/usr/lib/cni")
PROGRAMS = ("containerd", "runc", "ctr", "go", str(_PLUGINS / "bridge"))
ADDRESSES = ("10.89.0.1", "10.89.0.254")  # of hosts that pods reach
IMAGE = "localhost/benchstudy:1"
_PORT = 16443
_API = f"https://{ADDRESSES[0]}:{_PORT}"
_KUBECONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [{"name": "here", "cluster": {"server": _API, "insecure-skip-tls-verify": True}}],
    "users": [{"name": "admin", "user": {"token": "known"}}],
    "contexts": [{"name": "here", "context": {"cluster": "here", "user": "admin"}}],
    "current-context": "here",
}
_KUBELET = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "kind": "KubeletConfiguration",
    "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
    "authorization": {"mode": "AlwaysAllow"},
    "cgroupDriver": "cgroupfs",
    "cgroupsPerQOS": False,
    "enforceNodeAllocatable": [],
    "failSwapOn": False,
    "localStorageCapacityIsolation": False,
    "makeIPTablesUtilChains": False,
    "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
}
_NETWORK = {
    "cniVersion": "0.4.0",
    "name": "pods",
    "plugins": [
        {
            "type": "bridge",
            "bridge": "pods",
            "isGateway": True,
            "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.89.0.0/24", "rangeEnd": "10.89.0.200"}]]},
        }
    ],
}
_CONTAINERD = """
version = 2
root = "{folder}/containerd"
state = "/run/containerd-state"
[grpc]
address = "/run/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{image}"
disable_apparmor = true
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{plugins}"
conf_dir = "{folder}/net.d"
"""
# The first process of the namespaces: with it, all others end. A bridge takes the lowest address of its ports, which
# would change with each pod.
_INSIDE = """
set -eu
for own in /run /var/log /var/lib; do mount -t tmpfs none $own; done
ip link set lo up
ip link add pods type bridge
ip link set pods address 02:00:00:00:00:01
for address in {addresses}; do ip address add $address/24 dev pods; done
ip link set pods up
cd {folder}
begin() {{ name=$1; shift; "$@" >$name.said 2>&1 & }}
part={program}
begin etcd $part etcd --data-dir etcd
begin apiserver $part apiserver --etcd-servers http://127.0.0.1:2379 --bind-address {address} --secure-port {port} \\
    --cert-dir certs --token-auth-file tokens --authorization-mode Node,RBAC --endpoint-reconciler-type none \\
    --kubelet-preferred-address-types InternalIP \\
    --service-cluster-ip-range 10.90.0.0/24 --service-account-issuer https://kubernetes \\
    --service-account-key-file key --service-account-signing-key-file key
begin containerd containerd --config containerd.toml
until $part kubectl --kubeconfig kubeconfig get --raw /readyz; do sleep 0.2; done >/dev/null 2>&1
begin controllers $part controllers --kubeconfig kubeconfig --service-account-private-key-file key \\
    --root-ca-file certs/apiserver.crt --leader-elect=false --secure-port 0
begin scheduler $part scheduler --kubeconfig kubeconfig --leader-elect=false --secure-port 0
begin kubelet $part kubelet --kubeconfig kubeconfig --config kubelet.yaml --root-dir {folder}/kubelet \\
    --cert-dir certs --hostname-override node --node-ip {address} \\
    --container-runtime-endpoint unix:///run/containerd.sock
wait
"""


def missing() -> list[str]:
    return [program for program in PROGRAMS if shutil.which(program) is None]


def build(kept: Path) -> Path:
    """The program of tests/kubernetes. Compiling it takes long, so it is kept in the folder `kept`."""
    source = Path(__file__).with_name("kubernetes")
    digest = sha256(b"".join(file.read_bytes() for file in sorted(source.iterdir()))).hexdigest()
    program = kept / f"kubernetes-{digest[:12]}"
    unfinished = kept / f"{program.name}.new"
    if not program.exists():
        version = re.search(r"k8s.io/kubernetes (v\S+)", (source / "go.mod").read_text())
        assert version
        flags = f"-s -w -X k8s.io/component-base/version.gitVersion={version[1]}"
        subprocess.run(["go", "build", "-ldflags", flags, "-o", unfinished, "."], cwd=source, check=True)
        unfinished.rename(program)
    return program


def make_image(folder: Path, kept: Path) -> Path:
    """What envs/container/Dockerfile makes, as files. No builder of images is needed: its steps run in a chroot.

    Its base is a Debian with Python in /usr/local, because images of others cannot be fetched here.
    """
    root, where = two_hosts.make_debian(folder, kept), Path("/")
    (root / "etc/apt/apt.conf.d/90test").unlink()

    def take(*files: str) -> None:
        for file in filter(os.path.exists, files):
            shutil.copy(file, f"{root}{file}")

    take("/etc/resolv.conf", "/etc/pip.conf")

    def run(command: str) -> None:
        done = subprocess.run(
            ["chroot", root, "sh", "-ec", f"cd {where}; {command}"], capture_output=True, text=True,
            env={**os.environ, "PATH": "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "TMPDIR": "/tmp"},
        )  # fmt: skip
        assert done.returncode == 0, f"{command}: {done.stdout[-2000:]}{done.stderr[-2000:]}"

    run("apt-get -qq update && apt-get -qq install -y --no-install-recommends python3-venv")
    take("/etc/ssl/certs/ca-certificates.crt")  # with those of the registries that this machine uses
    run("python3 -m venv /usr/local")
    text = re.sub(r"\\\n", " ", (CHECKOUT / "envs/container/Dockerfile").read_text())
    for step in filter(None, (line.split("#")[0].strip() for line in text.splitlines())):
        what, told = step.split(maxsplit=1)
        if what == "WORKDIR":
            where = Path(told)
            (root / told[1:]).mkdir(parents=True)
        elif what == "COPY":
            *sources, target = shlex.split(told)
            for source in sources:
                place = root / str(where)[1:] / target
                if (CHECKOUT / source).is_dir():
                    shutil.copytree(
                        CHECKOUT / source, place, symlinks=True, ignore=shutil.ignore_patterns("__pycache__")
                    )
                else:
                    shutil.copy(CHECKOUT / source, place)
        elif what == "RUN":
            run(told)
        else:
            assert what == "FROM" and told.startswith("python:3.11-"), step
    return root


def archive(root: Path, name: str) -> Path:
    """An image of one layer, as containerd imports it. By itself it sleeps, as what holds a pod has to."""
    layer, image = root.with_suffix(".layer"), root.with_suffix(".image")
    with tarfile.open(layer, "w") as tar:
        tar.add(root, arcname=".")
    with layer.open("rb") as file:
        digest = file_digest(file, "sha256").hexdigest()
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Cmd": ["sleep", "infinity"], "Env": ["PATH=/usr/local/bin:/usr/bin:/bin"]},
    }
    config |= {"rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]}}
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    with tarfile.open(image, "w") as tar:
        tar.add(layer, arcname="layer.tar")
        for member, content in (("config.json", config), ("manifest.json", manifest)):
            text = json.dumps(content).encode()
            told = tarfile.TarInfo(member)
            told.size = len(text)
            tar.addfile(told, io.BytesIO(text))
    layer.unlink()
    shutil.rmtree(root)
    return image


class Node:
    """A cluster that runs. `inside`: the start of a command in its network and mounts."""

    def __init__(self, pid: int, program: Path, folder: Path):
        self.inside = ["nsenter", f"--target={pid}", "--net", "--mount"]
        self._kubectl = [*self.inside, str(program), "kubectl", "--kubeconfig", str(folder / "kubeconfig")]

    def kubectl(self, *arguments: str, given: Any = None, check: bool = True) -> str:
        """What kubectl prints. `given`: a document on its standard input."""
        text = None if given is None else json.dumps(given)
        done = subprocess.run([*self._kubectl, *arguments], input=text, capture_output=True, text=True)
        assert done.returncode == 0 or not check, done.stderr
        return done.stdout

    def add_image(self, image: Path) -> None:
        ctr = ["ctr", "--address", "/run/containerd.sock", "--namespace", "k8s.io", "images", "import", str(image)]
        subprocess.run([*self.inside, *ctr], check=True, stdout=subprocess.DEVNULL)
        image.unlink()

    def pod(self, argv: Sequence[str], where: Path, environment: Mapping[str, str]) -> tuple[str, str]:
        """Run a command in a pod on the shared volume `where`. Returns the pod's last phase, and what it said."""
        told = {"KUBERNETES_SERVICE_HOST": ADDRESSES[0], "KUBERNETES_SERVICE_PORT": str(_PORT), **environment}
        container = {
            "name": "command",
            "image": IMAGE,
            "workingDir": str(where),
            "command": list(argv),
            "env": [{"name": name, "value": value} for name, value in told.items()],
            "volumeMounts": [{"name": "volume", "mountPath": str(where)}],
        }
        volume = {"name": "volume", "persistentVolumeClaim": {"claimName": "shared"}}
        spec = {"serviceAccountName": "benchstudy", "restartPolicy": "Never", "containers": [container]}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "command"},
            "spec": {**spec, "volumes": [volume]},
        }
        self.kubectl("create", "-f", "-", given=pod)
        phase = ("get", "pod", "command", "-o", "jsonpath={.status.phase}")
        until(lambda: self.kubectl(*phase) not in ("Pending", "Running", ""), 600)
        ended, said = self.kubectl(*phase), self.kubectl("logs", "command")
        self.kubectl("delete", "pod", "command")
        return ended, said

    def share(self, folder: Path) -> None:
        """Make the volume and its claim, and the account of a command with the lines of docs/scale.md."""
        space: dict[str, Any] = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
        volume = space | {"capacity": {"storage": "9Gi"}, "hostPath": {"path": str(folder)}}
        claim = space | {"resources": {"requests": {"storage": "9Gi"}}, "volumeName": "shared"}
        for kind, spec in (("PersistentVolume", volume), ("PersistentVolumeClaim", claim)):
            told = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "shared"}, "spec": spec}
            self.kubectl("create", "-f", "-", given=told)
        document = (CHECKOUT / "docs/scale.md").read_text()
        for line in re.findall(r"^kubectl (create (?:serviceaccount|role|rolebinding) .*)", document, re.M):
            self.kubectl(*shlex.split(line))


@contextmanager
def kubernetes_node(folder: Path, kept: Path) -> Iterator[Node]:
    """A cluster of one node, with the image of envs/container. Afterwards, nothing of it is left."""
    program = build(kept)
    (folder / "net.d").mkdir(parents=True)
    (folder / "net.d/pods.conflist").write_text(json.dumps(_NETWORK))
    (folder / "kubeconfig").write_text(json.dumps(_KUBECONFIG))
    (folder / "kubelet.yaml").write_text(json.dumps(_KUBELET))
    (folder / "tokens").write_text('known,admin,admin,"system:masters"\n')
    (folder / "containerd.toml").write_text(_CONTAINERD.format(folder=folder, image=IMAGE, plugins=_PLUGINS))
    subprocess.run(["openssl", "genrsa", "-out", folder / "key", "2048"], check=True, capture_output=True)
    told = {"folder": folder, "program": program, "address": ADDRESSES[0], "addresses": " ".join(ADDRESSES)}
    inside = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    argv = [*two_hosts.DIE_WITH_TESTS, *inside, "sh", "-c", _INSIDE.format(port=_PORT, **told)]
    holder = subprocess.Popen(argv, stdin=subprocess.DEVNULL)
    try:
        children = Path(f"/proc/{holder.pid}/task/{holder.pid}/children")
        until(lambda: children.read_text().split())
        node = Node(int(children.read_text().split()[0]), program, folder)
        until(lambda: "True" in node.kubectl("get", "nodes", "-o", "jsonpath={..status}", check=False), 120)
        node.add_image(archive(make_image(folder, kept), IMAGE))
        yield node
        node.kubectl("delete", "jobs,pods", "--all", "--grace-period=1")
    finally:
        holder.kill()
        holder.wait()
        for group in sorted(Path("/sys/fs/cgroup").glob("*/k8s.io/**/"), reverse=True):
            with suppress(OSError):  # a file, or in use by another containerd
                group.rmdir()
        shutil.rmtree(folder, ignore_errors=True)
