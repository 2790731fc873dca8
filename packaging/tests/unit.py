"""A systemd unit, and its settings as far as they can be applied without systemd."""

import re
import resource
import shlex
import subprocess
from pathlib import Path


class Unit:
    def __init__(self, path):
        self.settings = {}
        for line in Path(path).read_text().splitlines():
            name, found, value = line.partition("=")
            if found and not line.startswith("#"):
                self.settings.setdefault(name, []).append(value)

    def __getitem__(self, name):
        """The value of a setting that the unit has once."""
        (value,) = self.settings[name]
        return value

    def environment(self):
        """The variables of the unit's environment file, as systemd reads them: no shell."""
        path = Path(self["EnvironmentFile"].lstrip("-"))
        lines = path.read_text().splitlines() if path.exists() else []
        return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))

    def command(self, *tracer):
        """ExecStart as the unit's user: without privileges, in a file system that is read-only but for the state."""
        for name, value in [
            ("ProtectSystem", "strict"), ("ProtectHome", "yes"), ("PrivateTmp", "yes"), ("NoNewPrivileges", "yes"),
            ("CapabilityBoundingSet", ""),
        ]:
            assert self[name] == value, f"{name}={self[name]}: change this test as well"
        state = f"/var/lib/{self['StateDirectory']}"
        # systemd creates the directory when it starts the service.
        create = ["install", "--directory", f"--mode={self['StateDirectoryMode']}", f"--owner={self['User']}",
                  f"--group={self['Group']}", state]
        subprocess.run(create, check=True)
        script = """
            umask "$0"
            mount --bind "$1" "$1"
            mount -o remount,bind,ro /
            for directory in /root /home /tmp; do mount -t tmpfs -o ro tmpfs "$directory"; done
            shift
            exec "$@" """
        drop = ["setpriv", f"--reuid={self['User']}", f"--regid={self['Group']}", "--clear-groups",
                "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]
        # In a container even root may not raise it.
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        limit = ["prlimit", f"--nofile={min(int(self['LimitNOFILE']), most)}"]
        sandbox = ["unshare", "--mount", "sh", "-euc", script, self["UMask"], state]
        return [*sandbox, *tracer, *drop, *limit, *shlex.split(self["ExecStart"])]

    def reload_command(self, process):
        command = self["ExecReload"].replace("$MAINPID", str(process))
        user = ["setpriv", f"--reuid={self['User']}", f"--regid={self['Group']}", "--clear-groups", "--no-new-privs"]
        return [*user, *shlex.split(command)]

    def allowed_calls(self):
        """The system calls that the unit allows."""
        calls = set()
        for value in self.settings["SystemCallFilter"]:
            groups = value.lstrip("~").split()
            named = set().union(*(expand(group) for group in groups))
            calls = calls - named if value.startswith("~") else calls | named
        # Always allowed: a filter without them could start no program.
        return calls | expand("@default") | {"execve"}


def expand(group):
    """The system calls of a name or of a group, which may contain groups."""
    if not group.startswith("@"):
        return {group}
    command = ["systemd-analyze", "syscall-filter", group]
    listed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    members = re.findall(r"^    (@?\w[\w-]*|@[\w-]+)$", listed, re.MULTILINE)
    return set().union(*(expand(member) for member in members))
