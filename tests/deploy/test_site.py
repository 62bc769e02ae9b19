"""The pages as a site: each is in its menu, and links between them lead to headings that are there."""
import importlib.util
import pathlib
import subprocess
import sys
import tempfile
import unittest

from emulated import DEPLOY


@unittest.skipUnless(importlib.util.find_spec("mkdocs"), "not installed: mkdocs")
class SiteTest(unittest.TestCase):
    def test_it_is_built_without_a_warning(self):
        with tempfile.TemporaryDirectory(prefix="muster-test-") as folder:
            done = subprocess.run([sys.executable, "-B", str(DEPLOY / "package/make_site.py"), folder], capture_output=True,
                                  text=True, timeout=180, check=False)
            self.assertEqual((0, ""), (done.returncode, done.stdout + done.stderr))
            for page in ("index.html", "docs/platforms.html", "docs/pictures/processes.svg"):
                self.assertTrue(pathlib.Path(folder, page).is_file(), page)
