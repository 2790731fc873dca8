"""A running service for tests, started as systemd or a container runtime would."""

import os
import select
import signal
import socket
import subprocess
import time

# Longer than anything that a test waits for, on a busy machine.
TIMEOUT = 60


class Service:
    """A started program, with what it logged and what it told systemd."""

    def __init__(self, command, env=None, **options):
        # An abstract name, because the program may have another root directory.
        name = f"tollgate-packages-{os.getpid()}-{time.monotonic_ns()}"
        self.notified = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notified.bind("\0" + name)
        self.notified.settimeout(TIMEOUT)
        env = {"NOTIFY_SOCKET": "@" + name, **(env or {})}
        self.process = subprocess.Popen(command, env=env, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, **options)
        self.log = b""
        self.addresses = {}

    def wait_for(self, text):
        """Reads the log until it has a text."""
        deadline = time.monotonic() + TIMEOUT
        while text.encode() not in self.log:
            ready, _, _ = select.select([self.process.stderr], [], [], max(0, deadline - time.monotonic()))
            data = os.read(self.process.stderr.fileno(), 65536) if ready else b""
            if not data:
                raise AssertionError(f"{text!r} is not logged:\n{self.log.decode()}")
            self.log += data

    def address(self, listener):
        """The address that a listener logged."""
        for line in self.log.decode().splitlines():
            before, found, address = line.partition(f"{listener} listening on ")
            if found:
                return address.partition("://")[2]
        raise AssertionError(f"no listener {listener}:\n{self.log.decode()}")

    def wait_until_ready(self):
        state = self.state()
        if state != "READY=1":
            raise AssertionError(f"{state}:\n{self.log.decode()}")
        # The listeners are logged before.
        self.wait_for("admin listening on ")
        return self

    def state(self):
        """The next state that systemd is notified of."""
        readable, _, _ = select.select([self.notified, self.process.stderr], [], [], TIMEOUT)
        while self.notified not in readable:
            data = os.read(self.process.stderr.fileno(), 65536) if readable else b""
            if not data:
                raise AssertionError(f"no state was notified:\n{self.log.decode()}")
            self.log += data
            readable, _, _ = select.select([self.notified, self.process.stderr], [], [], TIMEOUT)
        return self.notified.recv(4096).decode()

    def signal(self, number):
        self.process.send_signal(number)

    def stop(self):
        """Stops the service, and returns its exit code."""
        self.signal(signal.SIGTERM)
        return self.end()

    def end(self):
        # Reads on, so that a full pipe does not block the program.
        _, rest = self.process.communicate(timeout=TIMEOUT)
        self.log += rest
        self.notified.close()
        return self.process.returncode

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.end()


def can_mount():
    """Whether this process may have mounts of its own. Root in a container often may not."""
    command = ["unshare", "--mount", "true"]
    return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


def check(tollgate, service, *more):
    """Asks for a decision with `tollgate check`. Returns the exit code, 0 if the request is allowed, and the output."""
    url = "http://" + service.address("http").replace("0.0.0.0", "127.0.0.1")
    command = [tollgate, "check", "--url", url, "--ip", "203.0.113.9", *more]
    both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    result = subprocess.run(command, **both, text=True, timeout=TIMEOUT, env={})
    return result.returncode, result.stdout
