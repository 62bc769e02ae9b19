"""Three nodes run a real job with each platform's variables: pods with their own addresses and names."""
import pathlib
import tempfile
import unittest
import uuid

import cluster
from cluster import Cluster, ClusterTest, plain_environment, wait_until
from network import NETNS_FILES, Network, can_make_namespaces

NODES = 3


class Pods(Network):
    """Three pods: each resolves its own name from the start, as the kubelet writes it, and the others' names late."""

    def __init__(self, names, domain):
        self.names, self.domain = names, domain
        super().__init__(NODES)
        for place in self.places:
            with open(NETNS_FILES / self.namespace(place) / "hosts", "a", encoding="ascii") as hosts:
                hosts.write(f"{self.address(place)}\t{self.name(place)}\t{names[place]}\n")

    def name(self, place):
        return f"{self.names[place]}.{self.domain}"


class PlatformJob(Cluster):
    """`environment_at`: the platform's variables by place, the only source of the job's membership."""

    def __init__(self, environment_at, **kwargs):
        super().__init__(NODES, ports=[0] * NODES, **kwargs)
        self.environment_at = environment_at

    def environment_of(self, place):
        return {**plain_environment(), cluster.TOKEN: self.token, "TEST_PLACE": str(place), **self.environment_at(place)}


@unittest.skipUnless(can_make_namespaces(), "needs root and network namespaces")
class EachPlatform(ClusterTest):
    def setUp(self):
        self.job_name = f"job{uuid.uuid4().hex[:8]}"  # no run mistakes another test's processes for its own

    def run_job(self, source, environment_at, names=None, domain="svc", order=(0, 1, 2), options=(), late=False):
        """order: the places by their expected rank; None: any order."""
        pods = Pods(names or [f"{self.job_name}-{place}" for place in range(NODES)], domain)
        self.addCleanup(pods.close)  # runs after the cluster's clean-up, which is added later
        environment = lambda place: {"HOSTNAME": pods.names[place], **environment_at(place, pods)}
        job = self.cluster(kind=PlatformJob, environment_at=environment, prefix=pods.prefix, options=options)
        if not late:
            for place in pods.places:
                pods.learn(place)
        job.start_all([2, 1, 0])
        if late:
            for place in (1, 2):
                wait_until(f"place {place} waits for the name", lambda: job.nodes[place].said(r"waiting.*-0.*name"))
            for place in pods.places:
                pods.learn(place)
        starts = job.wait_for_round(0)
        job.open_gate()
        self.assertEqual({place: 0 for place in range(NODES)}, job.exit_codes())
        by_rank = [starts[rank]["place"] for rank in range(6)]
        self.assertEqual([0, 0, 1, 1, 2, 2], sorted(by_rank))
        if order:
            self.assertEqual([place for place in order for _ in range(2)], by_rank)
        self.assertEqual(6, starts[0]["world"])
        self.assert_same_master(starts)
        self.assertEqual(pods.address(by_rank[0]), starts[0]["master_addr"])
        for node in job.all_nodes:
            self.assertTrue(node.said(rf"\({source}\), primary"), f"{node.name} names its source")
        return job

    # Kubernetes.

    def test_an_indexed_job_with_late_names(self):
        self.run_job("indexed-job", late=True, environment_at=lambda place, pods: {
            "JOB_COMPLETION_INDEX": str(place), "MUSTER_SUBDOMAIN": "svc", "MUSTER_NNODES": "3"})

    def test_an_indexed_job_with_the_kubelets_hosts_file(self):
        self.run_job("indexed-job", domain="svc.ns.svc.cluster.local", options=["--nnodes", "3"],
                     environment_at=lambda place, pods: {"JOB_COMPLETION_INDEX": str(place)})

    def test_a_stateful_set(self):
        self.run_job("statefulset", environment_at=lambda place, pods: {
            "POD_NAME": pods.names[place], "MUSTER_SUBDOMAIN": "svc", "MUSTER_NNODES": "3"})

    def test_a_job_set_of_one_job(self):
        self.run_job("jobset", names=[f"{self.job_name}-workers-0-{place}" for place in range(NODES)],
                     domain=self.job_name, environment_at=lambda place, pods: {
                         "JOBSET_NAME": self.job_name, "JOB_COMPLETION_INDEX": str(place), "MUSTER_NNODES": "3"})

    def test_a_job_set_of_several_jobs(self):
        self.run_job("jobset", names=[f"{self.job_name}-workers-{place}-0" for place in range(NODES)],
                     domain=self.job_name, environment_at=lambda place, pods: {
                         "JOBSET_NAME": self.job_name, "JOB_COMPLETION_INDEX": "0", "MUSTER_PODS_PER_JOB": "1",
                         "MUSTER_NNODES": "3"})

    # Kubeflow.

    def pytorch_job_names(self):
        return [f"{self.job_name}-master-0", f"{self.job_name}-worker-0", f"{self.job_name}-worker-1"]

    def test_a_pytorch_job(self):
        self.run_job("pytorchjob", names=self.pytorch_job_names(), options=["--rdzv-id", self.job_name],
                     environment_at=lambda place, pods: {
                         "MASTER_ADDR": pods.name(0), "MASTER_PORT": "23456", "RANK": str(place), "WORLD_SIZE": "6",
                         "PET_MASTER_ADDR": pods.name(0), "PET_MASTER_PORT": "23456", "PET_NODE_RANK": str(place),
                         "PET_NNODES": "3", "PET_NPROC_PER_NODE": "2"})

    def test_a_pytorch_job_of_an_older_operator(self):
        self.run_job("static", names=self.pytorch_job_names(), options=["--rdzv-id", self.job_name],
                     environment_at=lambda place, pods: {
                         "MASTER_ADDR": pods.name(0), "MASTER_PORT": "23456", "RANK": str(place), "WORLD_SIZE": "3"})

    def test_an_elastic_pytorch_job(self):
        job = self.run_job("pytorchjob", names=[f"{self.job_name}-worker-{place}" for place in range(NODES)],
                           options=["--last-call-timeout", "0"], order=None, environment_at=lambda place, pods: {
                               "PET_NNODES": "3:4", "PET_RDZV_ENDPOINT": f"{pods.name(0)}:23456",
                               "PET_RDZV_BACKEND": "c10d", "PET_RDZV_ID": self.job_name})
        self.assertTrue(job.nodes[0].said("3 to 4"))

    def test_a_train_job_of_trainer_v2(self):
        self.run_job("trainer", names=[f"{self.job_name}-node-0-{place}" for place in range(NODES)],
                     domain=self.job_name, options=["--rdzv-id", self.job_name], environment_at=lambda place, pods: {
                         "PET_NNODES": "3", "PET_NPROC_PER_NODE": "2", "PET_NODE_RANK": str(place),
                         "PET_MASTER_ADDR": pods.name(0), "PET_MASTER_PORT": "29500",
                         "JOB_COMPLETION_INDEX": str(place)})

    # Others.

    def test_a_volcano_job_with_its_plugin_for_pytorch(self):
        self.run_job("volcano", names=self.pytorch_job_names(), domain=self.job_name,
                     environment_at=lambda place, pods: {
                         "VC_TASK_INDEX": str(max(place - 1, 0)), "MASTER_ADDR": pods.name(0), "MASTER_PORT": "23456",
                         "WORLD_SIZE": "3", "RANK": str(place), "VC_MASTER_HOSTS": pods.name(0),
                         "VC_WORKER_HOSTS": f"{pods.name(1)},{pods.name(2)}"})

    def test_a_volcano_job_of_one_task(self):
        self.run_job("volcano", names=[f"{self.job_name}-worker-{place}" for place in range(NODES)],
                     domain=self.job_name, environment_at=lambda place, pods: {
                         "VC_TASK_INDEX": str(place), "VC_WORKER_HOSTS": ",".join(map(pods.name, pods.places))})

    def test_an_aws_batch_job_with_another_main_node(self):
        def environment(place, pods):
            told = {} if place == 1 else {"AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS": pods.address(1)}
            return {"AWS_BATCH_JOB_ID": f"{self.job_name}#{place}", "AWS_BATCH_JOB_ATTEMPT": "1",
                    "AWS_BATCH_JOB_NUM_NODES": "3", "AWS_BATCH_JOB_MAIN_NODE_INDEX": "1",
                    "AWS_BATCH_JOB_NODE_INDEX": str(place), **told}
        self.run_job("batch", order=(1, 0, 2), environment_at=environment)

    def test_an_azure_ml_job_of_mpi(self):
        self.run_job("azureml", environment_at=lambda place, pods: {
            "AZUREML_RUN_ID": self.job_name, "AZ_BATCH_MASTER_NODE": f"{pods.address(0)}:6000",
            "OMPI_COMM_WORLD_RANK": str(place), "OMPI_COMM_WORLD_SIZE": "3", "OMPI_COMM_WORLD_LOCAL_RANK": "0",
            "OMPI_COMM_WORLD_LOCAL_SIZE": "1"})

    def test_an_azure_ml_job_of_pytorch(self):
        self.run_job("azureml", environment_at=lambda place, pods: {
            "AZUREML_RUN_ID": self.job_name, "MASTER_ADDR": pods.address(0), "MASTER_PORT": "6105",
            "WORLD_SIZE": "3", "NODE_RANK": str(place), "RANK": str(place), "LOCAL_RANK": "0"})

    def test_a_job_of_skypilot(self):
        self.run_job("skypilot", environment_at=lambda place, pods: {
            "SKYPILOT_NODE_RANK": str(place), "SKYPILOT_NUM_NODES": "3", "SKYPILOT_TASK_ID": self.job_name,
            "SKYPILOT_NODE_IPS": "\n".join(map(pods.address, pods.places))})

    def test_a_job_of_dstack(self):
        self.run_job("dstack", environment_at=lambda place, pods: {
            "DSTACK_NODE_RANK": str(place), "DSTACK_NODES_NUM": "3", "DSTACK_MASTER_NODE_IP": pods.address(0),
            "DSTACK_RUN_NAME": self.job_name})

    def test_a_leader_worker_set(self):
        names = [f"{self.job_name}-0", f"{self.job_name}-0-1", f"{self.job_name}-0-2"]
        self.run_job("lws", names=names, domain=f"{self.job_name}.ns", late=True, environment_at=lambda place, pods: {
            "LWS_LEADER_ADDRESS": pods.name(0), "LWS_GROUP_SIZE": "3", "LWS_WORKER_INDEX": str(place)})

    def test_a_job_of_volcengine(self):
        self.run_job("volcengine", environment_at=lambda place, pods: {
            "MLP_ROLE_INDEX": str(place), "MLP_WORKER_NUM": "3", "MLP_WORKER_0_HOST": pods.address(0),
            "MLP_WORKER_0_PORT": "2222", "MLP_TASK_ID": self.job_name})

    def test_an_instant_cluster_of_runpod(self):
        self.run_job("runpod", options=["--rdzv-id", self.job_name], environment_at=lambda place, pods: {
            "NODE_RANK": str(place), "NUM_NODES": "3", "PRIMARY_ADDR": pods.address(0), "PRIMARY_PORT": "29400",
            "MASTER_ADDR": pods.address(0), "MASTER_PORT": "29400", "WORLD_SIZE": "6"})

    def test_tasks_of_pbsdsh(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        hosts = pathlib.Path(folder.name) / "hosts"

        def environment(place, pods):
            if not hosts.exists():
                hosts.write_text("".join(f"{pods.address(p)}\n" * 2 for p in pods.places), encoding="ascii")
            return {"PBS_JOBID": self.job_name, "PBS_NODEFILE": str(hosts), "PBS_NODENUM": str(place),
                    "PBS_TASKNUM": str(place + 2)}
        self.run_job("pbs", environment_at=environment)

    def test_variables_set_by_hand(self):
        self.run_job("static", options=["--rdzv-id", self.job_name], environment_at=lambda place, pods: {
            "MASTER_ADDR": pods.address(0), "MASTER_PORT": "29500", "NODE_RANK": str(place), "NNODES": "3"})


if __name__ == "__main__":
    cluster.main()
