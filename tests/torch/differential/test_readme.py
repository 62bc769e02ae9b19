"""tests/torch/README.md is true: its cases exist, and no option or deliberate difference is missing."""
import pathlib
import re
import unittest

from differential.differences import DIFFERENCES
from differential.test_differential import CASES, has_torch

FOLDER = pathlib.Path(__file__).resolve().parents[1]
TESTS = FOLDER.parent
README = (FOLDER / "README.md").read_text()
PYTHON_TEST = re.compile(r"^    def (test_\w+)", re.MULTILINE)
CPP_TEST = re.compile(r"^TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\)", re.MULTILINE)
SECTIONS = 10  # sections with tables


def known_tests():
    """Names of cases, of Python test methods and, as Suite.Test, of C++ tests."""
    known = {case.name for case in CASES}
    for path in (*FOLDER.rglob("test_*.py"), *(TESTS / "integration").glob("test_*.py")):
        known.update(PYTHON_TEST.findall(path.read_text()))
    for path in (TESTS / "unit").rglob("*.cc"):
        known.update(f"{suite}.{name}" for suite, name in CPP_TEST.findall(path.read_text()))
    return known


def rows(column):
    """The last cells of the tables whose last heading is `column`."""
    inside, found = False, []
    for line in README.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if not cells:
            inside = False
        elif cells[-1] == column:
            inside = True
        elif inside and not set(line) <= set("|- "):
            found.append(cells[-1])
    return found


class ReadmeTest(unittest.TestCase):
    def test_every_row_names_an_existing_test(self):
        cells = rows("case") + rows("test")
        self.assertGreater(len(cells), 200)
        named = {cell: re.findall(r"`([^`]+)`", cell) for cell in cells}
        self.assertFalse([cell for cell, names in named.items() if not names])
        self.assertFalse(sorted({name for names in named.values() for name in names} - known_tests()))

    def test_every_table_has_a_column_of_tests(self):
        sections = README.split("\n## ")[1:]
        self.assertEqual(SECTIONS, len(sections))
        for section in sections:
            heads = re.findall(r"^\|.*\| *(\w+) *\|\n\|-", section, re.MULTILINE)
            self.assertEqual(1, len(heads), section.splitlines()[0])
            self.assertIn(heads[0], ("case", "test"), section.splitlines()[0])

    def test_no_table_has_duplicates(self):
        for section in README.split("\n## ")[1:]:
            firsts = [line.split("|")[1].strip() for line in section.splitlines() if line.startswith("| ")]
            self.assertEqual(len(firsts), len(set(firsts)), section.splitlines()[0])

    def test_every_deliberate_difference_has_a_reason(self):
        self.assertFalse([entry.reason for entry in DIFFERENCES if entry.reason not in README])

    @unittest.skipUnless(has_torch(), "torch is not installed")
    def test_every_option_variable_is_in_a_case(self):
        import torch.distributed.argparse_util as util  # takes seconds: not for who runs the others
        import torch.distributed.run
        variables = {f"PET_{action.dest.upper()}" for action in torch.distributed.run.get_args_parser()._actions
                     if isinstance(action, (util.env, util.check_env))}
        self.assertGreater(len(variables), 25)
        self.assertFalse(sorted(variables - {name for case in CASES for name in case.environment}))

    @unittest.skipUnless(has_torch(), "torch is not installed")
    def test_every_torchrun_option_is_listed(self):
        import torch.distributed.run  # takes seconds: not for who runs the others
        options = [option for action in torch.distributed.run.get_args_parser()._actions
                   for option in action.option_strings if "_" not in option]
        self.assertIn("--nproc-per-node", options)
        self.assertFalse([option for option in options if not re.search(rf"`{option}\b", README)])


if __name__ == "__main__":
    unittest.main()
