"""Writes the samples of tests/fixtures as one folder of seeds for each target.

  seeds.py FOLDER
"""
import pathlib
import sys

FIXTURES = pathlib.Path(__file__).resolve().parents[1] / "fixtures"
MAX_BYTES = 4096  # mutants of a long seed are slow

FAMILIES = {
    "cluster_spec": ["*cluster_spec_*.json"],
    "tf_config": ["*tf_config_*.json"],
    "resourceconfig": ["*sagemaker_*.json"],
    "hostfile": ["*hostfile_*.txt"],
    "environment": ["*.env"],
}
TABLES = {"nodelist": ["slurm_nodelists.tsv", "slurm_counts.tsv"]}  # the first column


def rows(name):
    for line in (FIXTURES / name).read_bytes().splitlines():
        if line and not line.startswith(b"#"):
            yield line.split(b"\t")[0]


def filters():
    """A filter, a NUL and the hosts that it names."""
    hosts = b"worker-0 slots=4\nworker-1 slots=4\nworker-2 slots=4\n"
    for column in rows("hostfile_filters.tsv"):
        yield column + b"\0" + hosts


def main():
    out = pathlib.Path(sys.argv[1])
    seeds = {family: [path.read_bytes() for pattern in patterns for path in sorted(FIXTURES.glob(pattern))]
             for family, patterns in FAMILIES.items()}
    seeds["hostfile"] += filters()
    seeds |= {family: [row for name in names for row in rows(name)] for family, names in TABLES.items()}
    for family, texts in seeds.items():
        folder = out / family
        folder.mkdir(parents=True, exist_ok=True)
        for number, text in enumerate(texts):
            if len(text) <= MAX_BYTES:
                (folder / f"seed{number}").write_bytes(text)


if __name__ == "__main__":
    main()
