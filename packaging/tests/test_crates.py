"""The crates as they would be published: complete, and reading nothing outside their packages."""

import json
import re
import subprocess
import tarfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# For tests and contributors.
UNPUBLISHED = {"tollgate-testbed", "tollgate-bench"}
INCLUDED = re.compile(r'include(?:_str|_bytes)?!\(\s*"([^"]+)"')


def cargo(*arguments):
    result = subprocess.run(["cargo", *arguments], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert result.returncode == 0, f"{arguments}: {result.stderr}"
    return result


def is_example(package):
    return Path(package["manifest_path"]).parent.parent == ROOT / "examples"


def included(features, name):
    """The features that a feature enables, directly or not."""
    found = {name}
    for other in features[name]:
        if other in features:
            found |= included(features, other)
    return found


class Crates(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.metadata = json.loads(cargo("metadata", "--format-version=1", "--no-deps", "--offline").stdout)
        cls.published = [package for package in cls.metadata["packages"] if package["publish"] != []]
        excluded = [package["name"] for package in cls.metadata["packages"] if package["publish"] == []]
        # All at once: cargo resolves them against each other, as the registry does not have them.
        # Without building them, which takes minutes (packaging/publish --dry-run), and without the lock file, which
        # cargo computes from the registry.
        options = [option for name in excluded for option in ("--exclude", name)]
        cls.messages = cargo("package", "--workspace", *options, "--no-verify", "--exclude-lockfile", "--allow-dirty").stderr
        directory = Path(cls.metadata["target_directory"]) / "package"
        cls.archives = {
            package["name"]: cls.read(directory / f"{package['name']}-{package['version']}.crate")
            for package in cls.published
        }

    @staticmethod
    def read(archive):
        """The files of a crate by their paths in it."""
        with tarfile.open(archive) as files:
            # A link would be empty where the crate is unpacked.
            assert all(member.isfile() for member in files)
            return {member.name.partition("/")[2]: files.extractfile(member).read() for member in files}

    def test_only_helpers_of_tests_benchmarks_and_examples_are_not_published(self):
        unpublished = {package["name"] for package in self.metadata["packages"] if package["publish"] == []}
        examples = {package["name"] for package in self.metadata["packages"] if is_example(package)}
        self.assertEqual(unpublished, UNPUBLISHED | examples)
        self.assertGreater(len(self.published), 7)

    def test_cargo_warns_of_nothing_but_missing_tests(self):
        warnings = [line for line in self.messages.splitlines() if line.startswith("warning:")]
        left_out = re.compile(r"warning: ignoring (test|example) `\w+` as `(tests|examples)/.*` is not included in the .*")
        self.assertEqual([line for line in warnings if not left_out.fullmatch(line)], [])

    def test_manifest_describes_the_crate(self):
        for package in self.published:
            for member in ["description", "license", "documentation", "readme", "rust_version", "keywords", "categories"]:
                self.assertTrue(package[member], f"{package['name']}: {member}")
            self.assertLessEqual(len(package["keywords"]), 5)

    def test_package_has_licences_and_a_readme(self):
        for name, files in self.archives.items():
            for licence in ["LICENSE-MIT", "LICENSE-APACHE"]:
                self.assertEqual(files[licence], (ROOT / licence).read_bytes(), name)
            self.assertTrue(files["README.md"].startswith(b"# tollgate"), name)
            self.assertEqual([path for path in files if path.startswith("tests/")], [])

    def test_sources_include_only_files_of_their_package(self):
        included = 0
        for name, files in self.archives.items():
            for path, content in files.items():
                for target in INCLUDED.findall(content.decode()) if path.endswith(".rs") else []:
                    resolved = (Path("/") / path).parent.joinpath(target).resolve()
                    # A path that leads out of the package ends at the root.
                    self.assertNotIn("../" * (path.count("/") + 1), target, f"{name}: {path}")
                    self.assertIn(str(resolved).lstrip("/"), files, f"{name}: {path}")
                    included += 1
        self.assertGreaterEqual(included, 20)

    def test_package_has_all_sources_of_the_crate(self):
        for package in self.published:
            directory = Path(package["manifest_path"]).parent
            sources = {str(path.relative_to(directory)) for path in directory.glob("src/**/*") if path.is_file()}
            self.assertEqual(sources - set(self.archives[package["name"]]), set())

    def test_program_contains_the_page_of_messages(self):
        page = self.archives["tollgate-cli"]["src/policy-messages.md"]
        self.assertEqual(page, (ROOT / "docs/policy-messages.md").read_bytes())

    def test_features_are_documented(self):
        (package,) = [package for package in self.published if package["name"] == "tollgate"]
        documentation = self.archives["tollgate"]["src/lib.rs"].decode()
        table = documentation.partition("//! | feature | adds |\n")[2].partition("\n//!\n")[0]
        rows = [row.split("|")[1] for row in table.splitlines()]
        documented = {name for row in rows for name in re.findall(r"`([\w-]+)`", row)}
        self.assertEqual(documented, set(package["features"]))
        for row in table.splitlines():
            _, first, adds, _ = row.split("|")
            said = adds.partition("include")[2]
            for name in re.findall(r"`([\w-]+)`", said):
                for feature in re.findall(r"`([\w-]+)`", first):
                    self.assertIn(name, included(package["features"], feature), row)
        self.assertNotIn("default", package["features"], "the documentation says that no feature is enabled by default")
