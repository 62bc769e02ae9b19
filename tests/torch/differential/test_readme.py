"""tests/torch/README.md says what is so: its cases exist, and no option or deliberate difference is left out."""
import pathlib
import re
import unittest

from differential.differences import DIFFERENCES
from differential.test_differential import CASES, has_torch

FOLDER = pathlib.Path(__file__).resolve().parents[1]
README = (FOLDER / "README.md").read_text()
TEST_NAME = re.compile(r"^    def (test_\w+)", re.MULTILINE)


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
    def test_every_case_and_test_that_the_tables_name_exists(self):
        known = {case.name for case in CASES}
        known |= {name for path in FOLDER.rglob("test_*.py") for name in TEST_NAME.findall(path.read_text())}
        named = [name for cell in rows("case") + rows("test") for name in re.findall(r"`([^`]+)`", cell)]
        self.assertGreater(len(named), 100)
        self.assertFalse(sorted(set(named) - known))

    def test_every_row_names_a_case_or_says_that_there_is_none(self):
        self.assertFalse([cell for cell in rows("case") + rows("test") if "`" not in cell and cell != "-"])

    def test_the_reason_of_every_deliberate_difference_is_there(self):
        self.assertFalse([entry.reason for entry in DIFFERENCES if entry.reason not in README])

    @unittest.skipUnless(has_torch(), "torch is not installed")
    def test_every_option_of_torchrun_is_there(self):
        import torch.distributed.run  # takes seconds: not for who runs the others
        options = [option for action in torch.distributed.run.get_args_parser()._actions
                   for option in action.option_strings if "_" not in option]
        self.assertIn("--nproc-per-node", options)
        self.assertFalse([option for option in options if not re.search(rf"`{option}\b", README)])


if __name__ == "__main__":
    unittest.main()
