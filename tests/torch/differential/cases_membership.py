"""Membership of a job: --nnodes, --nproc-per-node, the rendezvous options, restarts (facts 2.2, 3, 5)."""
from differential.case import WRONG_USAGE, WRONG_VALUE, Case, Exit

STATIC = ("--nnodes=2", "--nproc-per-node=2", "--master-addr=127.0.0.1", "--master-port={port}")
C10D = ("--nnodes=2", "--nproc-per-node=1", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:{port}", "--rdzv-id=j1")

CASES = (
    # How many workers.
    Case("three workers of one node", ("--nproc-per-node=3",), workers=3),
    Case("cpu is one worker for each CPU", ("--nproc-per-node=cpu",), workers=2),
    Case("auto is one worker for each CPU where there is no accelerator", ("--nproc-per-node=auto",), workers=2),
    Case("gpu is refused where there is none", ("--nproc-per-node=gpu",), workers=0, ends=WRONG_VALUE),
    Case("xpu is refused where there is none", ("--nproc-per-node=xpu",), workers=0, ends=WRONG_VALUE),
    Case("a number of workers that is none is refused", ("--nproc-per-node=many",), workers=0, ends=WRONG_VALUE),
    # How many nodes.
    Case("1:1 is one node", ("--nnodes=1:1",)),
    Case("a range of three is refused", ("--nnodes=1:2:3",), workers=0, ends=WRONG_VALUE),
    Case("zero nodes are refused", ("--nnodes=0",), workers=0, ends=WRONG_VALUE),
    Case("a least number of nodes above the greatest is refused", ("--nnodes=3:2",), workers=0, ends=WRONG_VALUE),
    Case("a number of nodes that is none is refused", ("--nnodes=two",), workers=0, ends=WRONG_VALUE),
    Case("a negative number of restarts is refused", ("--max-restarts=-1",), workers=0, ends=WRONG_VALUE),
    Case("a number of restarts that is none is refused", ("--max-restarts=x",), workers=0, ends=WRONG_USAGE),
    Case("a monitor interval that is no number is refused", ("--monitor-interval=x",), workers=0, ends=WRONG_USAGE),
    # One node.
    Case("standalone", ("--standalone", "--nproc-per-node=2"), workers=2),
    Case("standalone overrules the other options of the rendezvous",
         ("--standalone", "--rdzv-backend=static", "--rdzv-endpoint=192.0.2.1:9", "--rdzv-id=mine")),
    Case("one node without a port is standalone and its run has an id of its own", ("--nnodes=1", "--rdzv-id=mine")),
    Case("one node with a master port is static and keeps its id", ("--master-port={port}", "--rdzv-id=mine")),
    Case("one static node with an endpoint", ("--rdzv-endpoint=127.0.0.1:{port}",)),
    Case("c10d on one node with an endpoint", ("--rdzv-backend=c10d", "--rdzv-endpoint=localhost:{port}",
                                               "--rdzv-id=job-1")),
    Case("c10d on one node with port 0 takes a free one",
         ("--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", "--rdzv-id=x")),
    Case("a master port of 0 is a free one", ("--master-port=0", "--rdzv-id=x")),
    Case("c10d with port 0 takes a free one whatever the master port",
         ("--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", "--master-port=0", "--rdzv-id=x")),
    Case("an only node ignores its rank", ("--nnodes=1", "--node-rank=3")),
    Case("standalone ignores the rank of the node", ("--standalone", "--node-rank=1")),
    Case("variables of other launchers name no nodes", environment={
        "MASTER_ADDR": "192.0.2.1", "MASTER_PORT": "9", "RANK": "1", "WORLD_SIZE": "2", "NODE_RANK": "1", "NNODES": "2",
        "PMI_RANK": "1", "PMI_SIZE": "4", "SLURM_JOB_ID": "5", "SLURM_NODEID": "0", "SLURM_JOB_NUM_NODES": "2",
        "SLURM_JOB_NODELIST": "a,b"}),
    Case("without an id the run is called none", ("--rdzv-backend=c10d", "--rdzv-endpoint=localhost:{port}")),
    Case("a master address of IPv6 in brackets", ("--master-addr=[::1]", "--master-port={port}", "--rdzv-id=v6")),
    Case("an unknown backend is refused", ("--rdzv-backend=zookeeper", "--rdzv-endpoint=localhost:{port}"), workers=0,
         ends=WRONG_VALUE),
    Case("an endpoint whose port is no number is refused", ("--rdzv-backend=c10d", "--rdzv-endpoint=localhost:port"),
         workers=0, ends=WRONG_VALUE),
    Case("the workers get the given local address", ("--rdzv-backend=c10d", "--rdzv-endpoint=localhost:{port}",
                                                      "--local-addr=127.0.0.1")),
    # Settings of the rendezvous.
    Case("every key of the rendezvous configuration is taken", (
        "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:{port}", "--rdzv-conf=join_timeout=60,last_call_timeout=1,"
        "close_timeout=30,heartbeat_timeout=5,keep_alive_interval=5,keep_alive_max_attempt=3,read_timeout=60,"
        "timeout=900,is_host=true,store_type=tcp")),
    Case("an unknown key of the rendezvous configuration is taken",
         ("--rdzv-backend=c10d", "--rdzv-endpoint=localhost:{port}", "--rdzv-conf=colour=green")),
    Case("a rendezvous configuration without a value is refused", ("--rdzv-conf=join_timeout",), workers=0,
         ends=WRONG_VALUE),
    Case("a rendezvous configuration without a key is refused", ("--rdzv-conf==5",), workers=0, ends=WRONG_VALUE),
    Case("blanks around keys of the rendezvous configuration do not matter",
         ("--rdzv-conf= join_timeout = 60 , timeout = 900",)),
    # Two nodes.
    Case("two static nodes by their ranks", STATIC, nodes=(("--node-rank=0",), ("--node-rank=1",)), workers=4),
    Case("two static nodes of one and three workers", (*STATIC[:1], *STATIC[2:]), workers=4,
         nodes=(("--node-rank=0", "--nproc-per-node=1"), ("--node-rank=1", "--nproc-per-node=3"))),
    Case("two static nodes by an endpoint", ("--nnodes=2", "--rdzv-endpoint=127.0.0.1:{port}"), workers=2,
         nodes=(("--node-rank=0",), ("--node-rank=1",))),
    Case("a range of static nodes is its greatest number", ("--nnodes=1:2", *STATIC[2:]), workers=2,
         nodes=(("--node-rank=0",), ("--node-rank=1",))),
    Case("two nodes by c10d", C10D, nodes=((), ()), workers=2),
    Case("three nodes of two roles by their ranks", ("--nnodes=3", *STATIC[2:]), workers=3,
         nodes=(("--node-rank=0", "--role=a"), ("--node-rank=1", "--role=b"), ("--node-rank=2", "--role=a"))),
    Case("a node that waits in vain for the others gives up", (*C10D, "--rdzv-conf=join_timeout=2"), workers=0,
         ends=Exit(1, 69)),
    # Restarts.
    Case("a worker that fails once is started again with the next count", ("--max-restarts=2", "--nproc-per-node=2"),
         workers=2, attempts=2, plan={"0@0": ["together", "exit 3"], "*@0": ["together", "wait SIGTERM"]}),
    Case("a worker that fails once restarts both nodes' workers", (*C10D, "--max-restarts=1"), nodes=((), ()),
         workers=2, attempts=2, plan={"0@0": ["together", "exit 3"], "1@0": ["together", "exit 3"]}),
    Case("two restarts are counted", ("--max-restarts=3",), attempts=3, plan={"*@0": ["exit 1"], "*@1": ["exit 1"]}),
)
