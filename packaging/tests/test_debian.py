"""The Debian package: installed, run as its unit says, upgraded, removed and purged.

TOLLGATE_DEB is the package. TOLLGATE_IN_OVERLAY says that the machine is a copy; else the package is really installed.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import unittest
from pathlib import Path

from service import TIMEOUT, Service, can_mount, check
from unit import Unit

ROOT = Path(__file__).resolve().parents[2]
DEB = Path(os.environ["TOLLGATE_DEB"]).resolve()
BUILT = DEB.parent / "release/tollgate"
TOLLGATE = "/usr/bin/tollgate"
POLICY = Path("/etc/tollgate/policy.yaml")
FLAGS = Path("/etc/default/tollgate")
UNIT = "/usr/lib/systemd/system/tollgate.service"
# The exposure of the unit, in tenths, of 100.
MOST_EXPOSURE = 15

STATE = """
store:
  memory: { entries: 1000, snapshot: /var/lib/tollgate/counters.snapshot, every: 30s }
"""

QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}

# The paths and the users before the package was installed.
before = None


def output(*command):
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT)
    assert result.returncode == 0, f"{command}: {result.stdout}"
    return result.stdout


def dpkg(*arguments):
    # Without triggers: those of other packages, such as an index of all manual pages, take longer than this one.
    return output("dpkg", "--no-triggers", *map(str, arguments))


def files():
    """All paths that the package could leave. Other programs of the machine may create others meanwhile."""
    found = set()
    for top in ["/etc", "/usr", "/var", "/run"]:
        for directory, below, names in os.walk(top):
            found.update(os.path.join(directory, name) for name in below + names)
    return {path for path in found if "tollgate" in path}


def obstacle():
    """Why the package cannot be installed here."""
    if os.geteuid() != 0:
        return "only root can install a package"
    if not shutil.which("systemd-sysusers"):
        return "systemd is not installed"
    if not os.environ.get("TOLLGATE_IN_OVERLAY") and Path(TOLLGATE).exists():
        return "tollgate is installed on this machine"
    return None


OBSTACLE = obstacle()


def setUpModule():
    if OBSTACLE:
        return
    global before
    before = files(), output("getent", "passwd")
    dpkg("--install", DEB)


def tearDownModule():
    if before and subprocess.run(["dpkg", "--status", "tollgate"], **QUIET).returncode == 0:
        dpkg("--purge", "tollgate")


@unittest.skipIf(OBSTACLE, OBSTACLE)
class Installed(unittest.TestCase):
    def test_program_is_the_one_that_was_built(self):
        self.assertEqual(Path(TOLLGATE).read_bytes(), BUILT.read_bytes())
        version = re.search(r'^version = "(.*)"$', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)[1]
        self.assertEqual(output(TOLLGATE, "--version"), f"tollgate {version}\n")
        self.assertEqual(output("dpkg-query", "-W", "-f", "${Version}", "tollgate").split("-")[0], version)
        changelog = output("zcat", "/usr/share/doc/tollgate/changelog.Debian.gz")
        self.assertTrue(changelog.startswith(f"tollgate ({version}-1) "), changelog)

    def test_policy_is_the_starter_policy(self):
        self.assertEqual(POLICY.read_text(), output(TOLLGATE, "init", "-"))
        output(TOLLGATE, "validate", str(POLICY))

    def test_configuration_is_kept_by_upgrades(self):
        listed = output("dpkg-query", "-W", "-f", "${Conffiles}", "tollgate")
        self.assertEqual({line.split()[0] for line in listed.strip().splitlines()}, {str(POLICY), str(FLAGS)})
        kept = POLICY.read_text()
        try:
            POLICY.write_text(kept + "# changed by the operator\n")
            dpkg("--install", DEB)
            self.assertEqual(POLICY.read_text(), kept + "# changed by the operator\n")
        finally:
            POLICY.write_text(kept)

    def test_user_can_not_log_in_and_owns_no_file_of_the_package(self):
        name, _, _, _, _, home, shell = output("getent", "passwd", "tollgate").strip().split(":")
        self.assertEqual((name, home, shell), ("tollgate", "/var/lib/tollgate", "/usr/sbin/nologin"))
        owners = {path: Path(path).owner() for path in output("dpkg", "-L", "tollgate").split()}
        self.assertEqual({path for path, owner in owners.items() if owner != "root"}, set())

    def test_example_flags_exist(self):
        names = re.findall(r"^#(TOLLGATE_\w+)=", FLAGS.read_text(), re.MULTILINE)
        help = output(TOLLGATE, "serve", "--help")
        self.assertGreater(len(names), 5)
        self.assertEqual([name for name in names if f"[env: {name}]" not in help], [])

    def test_every_command_has_a_manual_page_without_warnings(self):
        pages = [path for path in output("dpkg", "-L", "tollgate").split() if "/man1/" in path]
        self.assertGreater(len(pages), 20)
        # Some systems exclude manual pages when they install a package.
        if not all(Path(page).exists() for page in pages):
            self.skipTest("dpkg is configured to leave out manual pages")
        for page in pages:
            command = ["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", page]
            env = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "MANWIDTH": "80"}
            shown = subprocess.run(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=TIMEOUT)
            self.assertEqual((shown.returncode, shown.stderr), (0, b""), page)
            # What `apropos` and `whatis` find.
            self.assertIn(f'"{Path(page).name.partition(".")[0]} - ', output("lexgrog", page))

    def test_unit_is_valid_and_its_exposure_low(self):
        verified = subprocess.run(["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", UNIT],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT)
        self.assertEqual([line for line in verified.stdout.splitlines() if "tollgate" in line], [])
        output("systemd-analyze", "security", "--offline=true", f"--threshold={MOST_EXPOSURE}", UNIT)

    def test_page_about_installation_is_true(self):
        page = (ROOT / "docs/install.md").read_text()
        section = page.partition("## Debian package")[2].partition("\n### ")[0]
        paths = set(re.findall(r"^\| `(/\S+)` \|", section, re.MULTILINE))
        # systemd creates the directory of the state.
        self.assertEqual(paths - {"/var/lib/tollgate"} - set(output("dpkg", "-L", "tollgate").split()), set())
        self.assertGreater(len(paths), 5)
        rust = re.search(r'^rust-version = "(.*)"$', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)[1]
        self.assertIn(f"needs Rust {rust} or later", page)
        # Another test has the real figure, which depends on the version of systemd.
        self.assertIn(f"rates its exposure below {MOST_EXPOSURE / 10} of 10", page)

    @unittest.skipUnless(shutil.which("lintian"), "lintian is not installed")
    def test_lintian_finds_nothing(self):
        self.assertEqual(output("lintian", "--allow-root", "--fail-on", "none", str(DEB)), "")


@unittest.skipIf(OBSTACLE, OBSTACLE)
@unittest.skipUnless(can_mount(), "this machine permits no mounts")
class InTheSandboxOfTheUnit(unittest.TestCase):
    def setUp(self):
        for path in [POLICY, FLAGS]:
            self.addCleanup(path.write_text, path.read_text())
        # Any free ports, as an operator would set flags.
        ports = "".join(f"TOLLGATE_{name}=127.0.0.1:0\n" for name in ["HTTP", "GRPC", "RESP", "ADMIN"])
        FLAGS.write_text(FLAGS.read_text() + ports)
        POLICY.write_text(POLICY.read_text() + STATE)
        self.unit = Unit(UNIT)

    def start(self, *tracer):
        env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **self.unit.environment()}
        service = Service(self.unit.command(*tracer), env)
        self.addCleanup(service.kill)
        return service.wait_until_ready()

    def test_service_decides_reloads_stops_and_keeps_its_counters(self):
        self.assertEqual(self.unit["Type"], "notify")
        service = self.start()
        status = Path(f"/proc/{service.process.pid}/status").read_text()
        for capabilities in ["CapEff", "CapPrm", "CapBnd", "CapInh"]:
            self.assertIn(f"{capabilities}:\t0000000000000000", status)
        self.assertIn("NoNewPrivs:\t1", status)
        self.assertIn("Groups:\t \n", status)
        self.assertNotIn("Uid:\t0", status)

        allowed, verdict = check(TOLLGATE, service, "--cost", "60")
        self.assertEqual(allowed, 0, verdict)
        POLICY.write_text(POLICY.read_text().replace("limit: 60/min burst 60", "limit: 60/min burst 70"))
        output(*self.unit.reload_command(service.process.pid))
        self.assertEqual([service.state(), service.state()], ["RELOADING=1", "READY=1"])
        # The counters are kept: ten more, and not seventy.
        self.assertEqual([check(TOLLGATE, service, "--cost", cost)[0] for cost in ["65", "10"]], [1, 0])
        self.assertEqual(service.stop(), 0, service.log)

        snapshot = Path("/var/lib/tollgate/counters.snapshot")
        self.assertEqual((snapshot.owner(), snapshot.stat().st_mode & 0o777), ("tollgate", 0o600))
        service = self.start()
        # At most a few tokens have been refilled.
        self.assertEqual(check(TOLLGATE, service, "--cost", "70")[0], 1)
        self.assertEqual(service.stop(), 0, service.log)

    @unittest.skipUnless(shutil.which("strace"), "strace is not installed")
    def test_service_makes_only_calls_that_the_unit_allows(self):
        # The only directory that can be written.
        trace = Path("/var/lib/tollgate/trace")
        service = self.start("strace", "--follow-forks", "--output", str(trace))
        check(TOLLGATE, service)
        child = Path(f"/proc/{service.process.pid}/task/{service.process.pid}/children").read_text().split()[0]
        os.kill(int(child), signal.SIGHUP)
        self.assertEqual([service.state(), service.state()], ["RELOADING=1", "READY=1"])
        os.kill(int(child), signal.SIGTERM)
        self.assertEqual(service.end(), 0, service.log)
        # The programs before it set the limits that systemd sets before it applies the filter.
        traced = trace.read_text().partition(f'execve("{TOLLGATE}"')[2]
        calls = set(re.findall(r"^\d+ +(\w+)\(", traced, re.MULTILINE))
        self.assertTrue({"socket", "epoll_wait", "rename"} <= calls, calls)
        self.assertEqual(calls - self.unit.allowed_calls(), set())
        families = set(re.findall(r"\bsocket\((AF_\w+)", traced))
        self.assertLessEqual(families, set(self.unit["RestrictAddressFamilies"].split()))
        self.assertEqual(self.unit["MemoryDenyWriteExecute"], "yes")
        self.assertEqual(re.findall(r"\bm\w+\(.*PROT_WRITE\|PROT_EXEC.*", traced), [])


@unittest.skipIf(OBSTACLE, OBSTACLE)
class Removed(unittest.TestCase):
    """Runs last: test classes run in alphabetical order."""

    def test_removal_keeps_the_configuration_and_purge_leaves_nothing(self):
        Path("/etc/tollgate/access-token").write_text("a token of the operator\n")
        dpkg("--remove", "tollgate")
        self.assertFalse(Path(TOLLGATE).exists())
        self.assertGreater(len(files() - before[0]), 2)
        self.assertTrue(POLICY.exists() and FLAGS.exists())
        dpkg("--purge", "tollgate")
        self.assertEqual(files() - before[0], set())
        self.assertEqual(output("getent", "passwd"), before[1])


if __name__ == "__main__":
    sys.exit("run by packaging/tests/run")
