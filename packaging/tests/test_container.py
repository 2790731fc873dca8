"""The container image: built, and its root run as its user.

TOLLGATE_PROGRAM is the program. A static one runs as it is; a dynamic one runs with the libraries of this machine in
the root of the image, which otherwise is the same.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import unittest
from pathlib import Path

from service import TIMEOUT, Service, can_mount, check

ROOT = Path(__file__).resolve().parents[2]
CONTAINER = ROOT / "packaging/container"
PROGRAM = Path(os.environ["TOLLGATE_PROGRAM"])


def output(*command):
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=10 * TIMEOUT)
    assert result.returncode == 0, f"{command}: {result.stdout}"
    return result.stdout


def libraries(program):
    """The shared libraries of a program, none if it is static."""
    listed = subprocess.run(["ldd", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    return re.findall(r"(/\S+) \(", listed)


@unittest.skipUnless(shutil.which("buildah"), "buildah is not installed")
@unittest.skipUnless(os.geteuid() == 0, "only root can run the root of an image")
@unittest.skipUnless(can_mount(), "this machine permits no mounts")
class Image(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.directory)
        storage = ["--storage-driver", "vfs", "--root", str(cls.directory / "root")]
        cls.buildah = ["buildah", *storage, "--runroot", str(cls.directory / "run")]
        output(*cls.buildah, "bud", "--isolation", "chroot", "--format", "docker", "--build-arg", "PROGRAM=prebuilt",
               "--file", str(CONTAINER / "Dockerfile"), "--tag", "tollgate", str(ROOT))
        cls.config = json.loads(output(*cls.buildah, "inspect", "--type", "image", "tollgate"))["Docker"]["config"]
        container = output(*cls.buildah, "from", "--pull-never", "tollgate").strip()
        cls.root = Path(output(*cls.buildah, "mount", container).strip())
        cls.files = {str(path.relative_to(cls.root)) for path in cls.root.rglob("*") if path.is_file()}
        for library in libraries(PROGRAM):
            place = cls.root / library.lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, place)

    def test_context_has_what_the_program_is_built_from(self):
        copied = self.directory / "Dockerfile"
        copied.write_text("FROM scratch\nCOPY . /source\n")
        output(*self.buildah, "bud", "--file", str(copied), "--tag", "context", str(ROOT))
        container = output(*self.buildah, "from", "--pull-never", "context").strip()
        source = Path(output(*self.buildah, "mount", container).strip()) / "source"
        output("cargo", "metadata", "--format-version=1", "--locked", "--offline", "--quiet", "--manifest-path",
               str(source / "Cargo.toml"))
        links = [path for path in source.rglob("*") if path.is_symlink()]
        self.assertGreater(len(links), 10)
        self.assertEqual([path for path in links if not path.exists()], [])
        self.assertEqual({path.name for path in (source / "packaging").iterdir()}, {"third-party-licenses"})

    def command(self, *arguments):
        """A command in the root of the image, which is read-only, as the user of the image."""
        script = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && user=$1 && shift && ' \
                 'exec setpriv --no-new-privs chroot --userspec="$user" --groups= "$0" "$@"'
        return ["unshare", "--mount", "sh", "-euc", script, str(self.root), self.config["User"], *arguments]

    def environment(self):
        return {"PATH": os.environ["PATH"], **dict(line.split("=", 1) for line in self.config["Env"])}

    def test_image_has_the_program_its_policy_and_licences(self):
        licences = {"third-party-licenses.txt", "LICENSE-MIT", "LICENSE-APACHE"}
        documents = {f"usr/share/doc/tollgate/{name}" for name in licences}
        self.assertEqual(self.files, {"usr/bin/tollgate", "etc/tollgate/policy.yaml", *documents})
        self.assertEqual((self.root / "usr/bin/tollgate").read_bytes(), PROGRAM.read_bytes())

    def test_user_is_a_number_and_not_root(self):
        self.assertRegex(self.config["User"], r"^[1-9]\d+:[1-9]\d+$")

    def test_listeners_accept_connections_from_outside_but_for_the_admin_listener(self):
        addresses = {name: value for name, value in self.environment().items() if value.startswith("0.0.0.0:")}
        self.assertEqual(set(addresses), {"TOLLGATE_HTTP", "TOLLGATE_GRPC", "TOLLGATE_RESP"})
        ports = {f"{value.partition(':')[2]}/tcp" for value in addresses.values()}
        self.assertEqual(set(self.config["ExposedPorts"]), ports)

    def test_service_decides_is_healthy_and_stops(self):
        # Any free ports: the test shares the network of this machine.
        env = self.environment()
        env.update({name: "0.0.0.0:0" for name, value in env.items() if value.startswith("0.0.0.0:")})
        env["TOLLGATE_ADMIN"] = "127.0.0.1:0"
        command = self.command(*self.config["Entrypoint"], *self.config["Cmd"])
        service = Service(command, env)
        self.addCleanup(service.kill)
        service.wait_until_ready()
        status = Path(f"/proc/{service.process.pid}/status").read_text()
        user, group = self.config["User"].split(":")
        for line in [f"Uid:\t{user}\t{user}", f"Gid:\t{group}\t{group}", "CapEff:\t0000000000000000", "NoNewPrivs:\t1"]:
            self.assertIn(line, status)

        self.assertEqual([check(PROGRAM, service, "--cost", cost)[0] for cost in ["60", "60"]], [0, 1])
        test, *health = self.config["Healthcheck"]["Test"]
        self.assertEqual(test, "CMD")
        url = {"TOLLGATE_URL": "http://" + service.address("http").replace("0.0.0.0", "127.0.0.1")}
        ask = {"env": {**env, **url}, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "timeout": TIMEOUT}
        self.assertEqual(subprocess.run(self.command(*health), **ask).returncode, 0)
        service.signal(signal.SIGHUP)
        self.assertEqual([service.state(), service.state()], ["RELOADING=1", "READY=1"])
        self.assertEqual(service.stop(), 0, service.log)
        self.assertNotEqual(subprocess.run(self.command(*health), **ask).returncode, 0)

    def test_admin_listener_requires_a_token_outside_loopback(self):
        command = self.command(*self.config["Entrypoint"], *self.config["Cmd"])
        env = {**self.environment(), "TOLLGATE_ADMIN": "0.0.0.0:0"}
        refused = subprocess.run(command, env=env, stderr=subprocess.PIPE, text=True, timeout=TIMEOUT)
        self.assertEqual(refused.returncode, 2, refused.stderr)
        self.assertIn("--admin-token-file", refused.stderr)


class Files(unittest.TestCase):
    @unittest.skipUnless(os.environ.get("HADOLINT"), "hadolint is not installed")
    def test_hadolint_finds_nothing(self):
        output(os.environ["HADOLINT"], str(CONTAINER / "Dockerfile"))

    def test_rust_of_the_image_is_that_of_the_workspace(self):
        rust = re.search(r'^rust-version = "(.*)"$', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)[1]
        self.assertIn(f"docker.io/library/rust:{rust}-alpine", (CONTAINER / "Dockerfile").read_text())

    def test_policy_of_compose_is_valid(self):
        output(str(PROGRAM), "validate", str(CONTAINER / "policy.yaml"))
