"""What the README and docs/ say is so: the options they name exist, the defaults and exit codes are the program's, and
what they link to or name as a file is there. The help texts are held to the same defaults."""
import json
import os
import pathlib
import re
import subprocess
import unittest

import cluster

ROOT = pathlib.Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "docs/reference.md"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
COMMANDS = ("run", "local", "coordinator", "host", "env", "hostfile", "health", "status", "stacks", "events", "stop", "restart", "drain", "signal", "install",
            "token")
# Options of other programs that the pages show.
FOREIGN = {"nodes", "gpus-per-node", "ntasks-per-node", "cpus-per-task", "kill-on-bad-exit", "no-kill", "map-by",
           "preset", "build", "target", "test-dir", "tests", "checkpoint", "no-torch", "arch",
           # Docker's
           "alias", "cap-drop", "from", "init", "ipc", "memory", "network", "read-only", "restart", "security-opt",
           "shm-size", "signal", "stop-timeout", "tmpfs", "ulimit", "user",
           # kubectl's
           "dry-run", "from-file",
           # torchtune's
           "config"}
NAME = re.compile(r"--([a-z][a-z-]*)\b")  # those of Accelerate have underscores
PLAIN_VALUE = re.compile(r"\d+(ms|s|m|h)?")
FOLDERS = "agent|base|cli|deploy|docs|proto|rendezvous|tests"


def said(*words):
    done = subprocess.run([str(cluster.BINARY), *words], env=cluster.plain_environment(), capture_output=True, text=True,
                          timeout=cluster.LIMIT_S, check=True)
    return done.stdout


def defaults():
    """Options and their defaults as muster env shows them on a machine without settings."""
    settings = json.loads(said("env", "--json"))["settings"]
    plain = {name: line["value"] for name, line in settings.items()
             if line["origin"] == "default" and PLAIN_VALUE.fullmatch(line["value"])}
    assert len(plain) > 15, settings
    return plain


def has_word(text, word):
    return re.search(rf"(?<![\w.]){re.escape(word)}(?!\w)", text) is not None


def table_rows(page, heading):
    section = page.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = [re.split(r"(?<!\\) \| ", line[2:].rstrip(" |")) for line in section.splitlines() if line.startswith("| ")]
    return rows[1:]


def anchors(page):
    """Those of its headings, as GitHub makes them."""
    plain = [re.sub(r"\[([^]]*)\]\([^)]*\)|[`*]", r"\1", heading) for heading in re.findall(r"^#+ (.*)$", page, re.MULTILINE)]
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in plain}


def reference(help_text):
    """One text of --help as a page shows it: a heading for each group of options, all else as it is."""
    out, is_open = [], False
    for part in help_text.strip("\n").split("\n\n"):
        title, _, rest = part.partition("\n")
        is_group = re.fullmatch(r"[A-Z].*:", title) and rest.startswith("  -")
        if is_group or not is_open:
            out += ["```", ""] * is_open + [f"### {title[:-1]}", ""] * bool(is_group) + ["```"]
        else:
            out.append("")
        out.append(rest if is_group else part)
        is_open = True
    return "\n".join(out + ["```"])


class HelpTest(unittest.TestCase):
    def test_its_defaults_are_true(self):
        help_text = said("run", "--help")
        for name, value in defaults().items():
            with self.subTest(name):
                option = re.search(rf"^  (?:-\w, )?--{name}\b(.*?)(?=^  -|^\S|^$)", help_text, re.MULTILINE | re.DOTALL)
                words = " ".join(option[1].split())
                self.assertTrue(has_word(words[words.index("Default"):], value), words)


class DocumentsTest(unittest.TestCase):
    def test_every_documented_option_exists(self):
        known = FOREIGN.union(*(NAME.findall(said(command, "--help")) for command in COMMANDS))
        for page in PAGES:
            named = set(NAME.findall(page.read_text()))
            self.assertEqual(set(), named - known - {"help"}, page)

    def test_the_reference_is_the_texts_of_help(self):
        """MUSTER_RENDER=1 writes it anew, below what is written by hand."""
        by_hand = REFERENCE.read_text().split("## muster run\n")[0]
        page = by_hand + "\n".join(f"## muster {name}\n\n{reference(said(name, '--help'))}\n" for name in COMMANDS)
        if os.environ.get("MUSTER_RENDER"):
            REFERENCE.write_text(page)
        self.assertEqual(REFERENCE.read_text(), page)

    def test_reference_and_help_have_the_same_exit_codes(self):
        helped = said("--help").split("Exit codes:\n")[1].split("\n\n")[0]
        codes = [re.findall(r"\b\d+\b", line[:13]) for line in helped.splitlines()]
        shown = [re.findall(r"^\d+|(?<=, )\d+", row[0]) for row in table_rows(REFERENCE, "Exit codes")]
        self.assertEqual([code for line in codes for code in line], [code for row in shown for code in row])
        self.assertGreater(len(codes), 8)

    def test_linked_and_named_files_exist(self):
        pages = [*PAGES, *(path for folder in FOLDERS.split("|") for path in (ROOT / folder).rglob("README.md"))]
        for page in pages:
            text = page.read_text()
            for link, anchor in re.findall(r"\]\((?!http)([^)#]*)#?([^)]*)\)", text):
                target = page.parent / link if link else page
                self.assertTrue(target.exists(), f"{page}: {link}")
                if anchor:
                    self.assertIn(anchor, anchors(target.read_text()), f"{page}: {link}")
            for name in re.findall(rf"`((?:{FOLDERS})/[\w./-]+)`", text):
                there = [folder / name for folder in (ROOT, page.parent)]
                there += [path.with_name(path.name + ".h") for path in there]  # `cli/run_plan`: both files
                self.assertTrue(any(path.exists() for path in there), f"{page}: {name}")

    def test_every_test_they_cite_exists(self):
        there = "".join(path.read_text() for end in ("cc", "py") for path in (ROOT / "tests").rglob(f"*.{end}"))
        cited = {name for page in PAGES for name in re.findall(r"`(test_\w+)`(?!\.py)", page.read_text())}
        self.assertGreater(len(cited), 10)
        self.assertEqual([], sorted(name for name in cited if f"def {name}(" not in there))

    def test_the_design_names_what_is_in_its_files(self):
        cited = re.findall(r"`([\w/]+\.(?:cc|h))`\s\(`(\w+)`", (ROOT / "docs/design.md").read_text())
        self.assertGreater(len(cited), 20)
        sources = [path for folder in FOLDERS.split("|") for end in ("cc", "h") for path in (ROOT / folder).rglob(f"*.{end}")]
        for name, symbol in cited:
            there = [path for path in sources if str(path).endswith("/" + name)]
            self.assertTrue(any(symbol in path.read_text() for path in there), f"{name}: {symbol}")
        text = "".join(path.read_text() for path in sources)
        symbols = set(re.findall(r"`(?:\w+::)?([A-Z][a-z]+[A-Z]\w*)`", (ROOT / "docs/design.md").read_text()))
        self.assertEqual([], sorted(symbol for symbol in symbols if symbol not in text))

    def test_the_program_of_each_unit_test_that_is_named_exists(self):
        programs = "".join(path.read_text() for path in (ROOT / "tests").rglob("CMakeLists.txt"))
        named = {name for page in [*PAGES, ROOT / "CONTRIBUTING.md"] for name in
                 re.findall(r"(?:bin/|-R )(\w+_test)\b", page.read_text())}
        self.assertGreater(len(named), 0)
        self.assertEqual([], sorted(name for name in named if f"muster_test({name}" not in programs))

    def test_each_folders_readme_names_its_sources(self):
        folders = {path.parent for room in ("agent", "base", "cli", "rendezvous") for path in (ROOT / room).rglob("*.cc")}
        self.assertGreater(len(folders), 15)
        for folder in folders:
            said_there = (folder / "README.md").read_text()
            stems = {path.name.split(".")[0] for path in folder.iterdir() if path.suffix in (".cc", ".h")}
            self.assertEqual([], sorted(stem for stem in stems if stem not in said_there), folder)


if __name__ == "__main__":
    unittest.main()
