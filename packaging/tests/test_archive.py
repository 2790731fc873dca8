"""The archive of a release: complete, and the same if it is packed again."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(os.environ["TOLLGATE_DEB"]).resolve().parent / "release"


class Archive(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)

    def pack(self):
        env = {**os.environ, "CARGO_TARGET_DIR": str(self.directory), "ARCHIVE_COMPRESSION": "1"}
        subprocess.run([ROOT / "packaging/archive", PROGRAM, "some-target"], env=env, check=True)
        (archive,) = (self.directory / "archives").iterdir()
        return archive

    def test_archive_has_the_program_with_its_documents(self):
        archive = self.pack()
        self.assertRegex(archive.name, r"^tollgate-\d+\.\d+\.\d+-some-target\.tar\.gz$")
        subprocess.run(["tar", "-xf", archive, "-C", self.directory], check=True)
        unpacked = self.directory / archive.name.removesuffix(".tar.gz")
        version = subprocess.run([unpacked / "tollgate", "--version"], check=True, stdout=subprocess.PIPE, text=True)
        self.assertEqual(f"{version.stdout.strip().replace(' ', '-')}-some-target", unpacked.name)
        for name in ["man/tollgate-serve.1.gz", "completions/_tollgate", "third-party-licenses.txt", "LICENSE-MIT"]:
            self.assertGreater((unpacked / name).stat().st_size, 0, name)

    def test_same_files_give_the_same_archive(self):
        first = self.pack().read_bytes()
        self.assertEqual(self.pack().read_bytes(), first)
