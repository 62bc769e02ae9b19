"""Writes the samples of tests/fixtures as one folder of seeds for each target.

  seeds.py FOLDER
"""
import pathlib
import ssl
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


def frames():
    """A byte that the target reads, and what an agent sends after the preface."""
    settings = bytes.fromhex("000000040000000000")
    call = bytes.fromhex("000003010400000001") + b"\x83\x86\x04"
    status = bytes.fromhex("000007000000000001") + bytes(7)
    ping = bytes.fromhex("000008060000000000") + bytes(8)
    for piece in (1, 9, 255):
        yield bytes([piece]) + settings + call + status + ping


def hello():
    """The first message of a TLS client that knows no key."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    received, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
    try:
        context.wrap_bio(received, sent, server_hostname="a").do_handshake()
    except ssl.SSLWantReadError:
        pass
    return sent.read()


def handshakes():
    """A byte that chooses codec and pieces, and what such a peer might send."""
    servers = bytes.fromhex("000006040000000000000300000064")
    for first in (hello(), servers, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + servers, bytes.fromhex("15030300020228")):
        yield from (bytes([kind + 4 * piece]) + first for kind in range(4) for piece in (0, 60))


def main():
    out = pathlib.Path(sys.argv[1])
    seeds = {family: [path.read_bytes() for pattern in patterns for path in sorted(FIXTURES.glob(pattern))]
             for family, patterns in FAMILIES.items()}
    seeds["hostfile"] += filters()
    seeds |= {family: [row for name in names for row in rows(name)] for family, names in TABLES.items()}
    seeds |= {"frame_guard": [*frames()], "handshake": [*handshakes()]}
    for family, texts in seeds.items():
        folder = out / family
        folder.mkdir(parents=True, exist_ok=True)
        for number, text in enumerate(texts):
            if len(text) <= MAX_BYTES:
                (folder / f"seed{number}").write_bytes(text)


if __name__ == "__main__":
    main()
