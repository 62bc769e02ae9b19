#!/usr/bin/env python3
"""Builds the pages as a site, in build/site: .venv/bin/python deploy/package/make_site.py [FOLDER]

Needs MkDocs (deploy/setup.sh --tests installs it). Links to files that are no pages become plain words; a page that the
menu lacks, and a link to a heading that is not there, are errors.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

import contents

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONFIGURATION = """
site_name: muster
theme: {name: mkdocs, highlightjs: false, color_mode: auto, user_color_mode_toggle: true}
docs_dir: pages
use_directory_urls: false
validation: {links: {anchors: warn}, nav: {omitted_files: warn}}
plugins: [search]
markdown_extensions: [tables, fenced_code]
nav:
- Home: README.md
- All pages: docs/README.md
"""


def menu(index):
    """As docs/README.md orders the pages."""
    lines = []
    for line in index.splitlines():
        if title := re.fullmatch(r"\*\*(.*)\*\*", line):
            lines.append(f"- {title[1]}:")
        lines += [f"  - docs/{page}" for page in re.findall(r"\[\w[\w-]*\.md\]\(([\w-]+\.md)\)", line) if lines]
    return "\n".join([*lines, "- Changes: CHANGELOG.md", ""])


def main():
    out = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/site").resolve()
    pages = contents.read_pages(ROOT)
    with tempfile.TemporaryDirectory() as folder:
        for path, page in pages.items():
            file = pathlib.Path(folder, "pages", path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(page)
        pathlib.Path(folder, "mkdocs.yml").write_text(CONFIGURATION + menu(pages["docs/README.md"].decode()))
        done = subprocess.run([sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(out)], cwd=folder,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    sys.exit(done.stdout if done.returncode else 0)


if __name__ == "__main__":
    main()
