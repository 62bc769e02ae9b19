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


def jobs():
    """The options of a job, and events of fuzz_coordinator: two honest hosts and two others."""
    say, said, apply, end, close, past, reattach, mute = range(8)
    honest, liar = (0, 1), 2
    each = lambda event, *more: bytes(byte for host in honest for byte in (event | host << 3, *more))
    begin = each(say) + bytes([past, 60]) + each(apply) + bytes([past, 20]) + each(apply)
    succeed = each(end, 0) + bytes([past, 10]) + each(apply) + bytes([past, 10]) + each(apply)
    for choice in (0b001, 0b011, 0b11001, 0b1100011):
        yield bytes([choice, 7]) + begin + succeed
        yield bytes([choice, 7]) + begin + bytes([end, 1, past, 10]) + each(apply) + bytes([past, 60]) + begin + succeed
        yield bytes([choice, 7]) + begin + bytes([mute, close, past, 63, past, 63, past, 63]) + begin + succeed
        yield bytes([choice, 7]) + begin + each(close) + each(reattach) + bytes([past, 10]) + succeed
    claims = (b"\xd2\x01\x06\x0a\x04\x08\x09\x12\x00", b"\xd8\x01\x03", b"\xf2\x01\x02\x08\x01", b"\xf2\x01\x00",
              b"\xa2\x01\x02\x08\x09", b"\x88\x02\x01", b"\xb0\x01\x05")
    for claim in claims:  # of last, outcome, verdict, epoch, cancelled and phase
        word = bytes([said | liar << 3, len(claim)]) + claim
        yield bytes([0b011, 7]) + word + begin + word + succeed


def nodes():
    """The options of a node, and events of fuzz_agent."""
    direct, apply, connect, disconnect, past, refuse, host_ends, say = range(8)
    run = b"\x5a\x12\x0a\x08\x08\x01\x12\x02\x08\x01\x10\x01\x18\x02\x28\x04\x32\x00"
    stop = b"\x62\x0a\x0a\x08\x08\x01\x12\x02\x08\x01"
    verdict = b"\x6a\x02\x38\x01"
    orders = [bytes([direct, len(order)]) + order for order in (run, stop, verdict)]
    for choice in range(0, 64, 4):
        begin = bytes([choice, connect, say, apply])
        yield begin + b"".join(order + bytes([apply, past, 5]) for order in orders)
        yield begin + orders[0] + bytes([apply, disconnect, past, 60, connect, say, apply, past, 60, past, 60, past, 60])
        yield begin + orders[0] + bytes([apply, host_ends | 8, past, 20, host_ends | 24, say])
        yield begin[:1] + bytes([refuse, past, 30, refuse, past, 30, refuse])


def statuses():
    """A status with one field of each kind."""
    yield b"\x0a\x03run\x12\x04host\x1a\x04\x08\x01\x10\x02"
    yield b"\xd2\x01\x10\x4a\x03\x01\x02\x03\xaa\x01\x04\x0a\x02id\x10\x05\x72\x00"
    yield b"\xe2\x01\x06\x9a\x01\x03\x28\x01\x50\x01"
    yield b"\xd2\x02\x06\x0a\x01a\x12\x01b"


def main():
    out = pathlib.Path(sys.argv[1])
    seeds = {family: [path.read_bytes() for pattern in patterns for path in sorted(FIXTURES.glob(pattern))]
             for family, patterns in FAMILIES.items()}
    seeds["hostfile"] += filters()
    seeds |= {family: [row for name in names for row in rows(name)] for family, names in TABLES.items()}
    seeds |= {"frame_guard": [*frames()], "handshake": [*handshakes()], "received_status": [*statuses()],
              "coordinator": [*jobs()], "agent": [*nodes()]}
    for family, texts in seeds.items():
        folder = out / family
        folder.mkdir(parents=True, exist_ok=True)
        for number, text in enumerate(texts):
            if len(text) <= MAX_BYTES:
                (folder / f"seed{number}").write_bytes(text)


if __name__ == "__main__":
    main()
