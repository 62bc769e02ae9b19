"""The manifests in deploy/kubernetes: schemas, and claims that no schema can check.

kubernetes-validate has the published schemas of Kubernetes' own kinds. JobSet's and Trainer's kinds are checked against
the models that their projects generate from their OpenAPI (the package kubeflow-trainer-api); the Job in them, with its
pods, against Kubernetes' schema. What only an API server checks (webhooks, rules between fields) is below, as claims.
"""
import functools
import os
import pathlib
import re
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import images  # noqa: E402
import manifests  # noqa: E402

ROOT = manifests.ROOT
OLDEST, NEWEST = "1.31", "1.37"  # OLDEST: as the manifests and deploy/kubernetes/README.md say
BINARY = pathlib.Path(os.environ.get("MUSTER_BINARY", ROOT / "build/release/bin/muster")).resolve()
SIGNALS = {128 + 9, 128 + 15}
GRACE_MARGIN_S = 5  # for muster to report and end, after its workers


def setUpModule():
    try:
        manifests.use_packages()
    except images.Unavailable as error:
        raise unittest.SkipTest(str(error)) from error


def exit_codes_of_reference():
    """The numbers in the first column of the page's table."""
    section = (ROOT / "docs/reference.md").read_text().split("## Exit codes")[1].split("\n## ")[0]
    rows = re.findall(r"^\| ([\d, ]+) \|", section, re.MULTILINE)
    return {int(code) for row in rows for code in row.split(",")}


def seconds(text):
    number, unit = re.fullmatch(r"(\d+)(s|m)?", text).groups()
    return int(number) * {"m": 60}.get(unit, 1)


def variables(container):
    return {entry["name"]: entry.get("value") for entry in container.get("env", [])}


def probes(container):
    return {name: container[name] for name in manifests.PROBES if name in container}


class Schemas(unittest.TestCase):
    """Each document against the published schema of its kind; unknown fields are errors."""

    def check(self, document):
        import kubernetes_validate  # pylint: disable=import-outside-toplevel
        for version in (OLDEST, NEWEST):
            kubernetes_validate.validate(document, version, strict=True)

    def check_by_model(self, document, model):
        """The models ignore fields that they do not know, so the document must come back whole."""
        self.assertEqual(document, model.from_dict(document).to_dict())

    def test_kinds_of_kubernetes(self):
        checked = set()
        for file in manifests.files():
            for document in manifests.documents(file.name):
                if "." not in document["apiVersion"]:
                    with self.subTest(file=file.name, kind=document["kind"]):
                        self.check(document)
                        checked.add(document["kind"])
        self.assertEqual({"Service", "Job", "StatefulSet", "PersistentVolumeClaim"}, checked)

    def test_jobs_inside_other_kinds(self):
        for template in manifests.templates():
            if template.kind in ("JobSet", "TrainJob"):
                with self.subTest(file=template.file):
                    self.check({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "llm"},
                                "spec": template.job})

    def test_kinds_of_jobset_and_trainer(self):
        from kubeflow_trainer_api import models  # pylint: disable=import-outside-toplevel
        by_kind = {"JobSet": models.JobsetV1alpha2JobSet, "TrainJob": models.TrainerV1alpha1TrainJob,
                   "ClusterTrainingRuntime": models.TrainerV1alpha1ClusterTrainingRuntime}
        checked = []
        for file in manifests.files():
            for document in manifests.documents(file.name):
                if document["kind"] in by_kind:
                    with self.subTest(file=file.name, kind=document["kind"]):
                        self.check_by_model(document, by_kind[document["kind"]])
                        checked.append(document["kind"])
        self.assertEqual(sorted(by_kind), sorted(checked))

    def test_a_wrong_field_is_found(self):
        """Or these tests could not fail."""
        from kubeflow_trainer_api import models  # pylint: disable=import-outside-toplevel
        import kubernetes_validate  # pylint: disable=import-outside-toplevel
        job = next(d for d in manifests.documents("indexed-job.yaml") if d["kind"] == "Job")
        job["spec"]["template"]["spec"]["containers"][0]["readynessProbe"] = {}
        with self.assertRaises(kubernetes_validate.ValidationError):
            self.check(job)
        [jobset] = manifests.documents("jobset.yaml")
        jobset["spec"]["network"]["publishNotReadyAdresses"] = True
        with self.assertRaises(AssertionError):
            self.check_by_model(jobset, models.JobsetV1alpha2JobSet)


def for_each_template(test):
    """Runs a test once for each manifest with pods, each as a subtest."""
    @functools.wraps(test)
    def run(self):
        found = manifests.templates()
        self.assertEqual(5, len(found))
        for template in found:
            with self.subTest(file=template.file):
                test(self, template)
    return run


def asked_of_muster(probe):
    """The command, without what the StatefulSet's asks first: whether the job has succeeded, and muster ended."""
    command = probe["exec"]["command"]
    return command[2].removeprefix("test -e /tmp/succeeded || ").split() if command[:2] == ["sh", "-c"] else command


class Claims(unittest.TestCase):
    """What holds for the pods of every manifest."""

    # Membership.

    @for_each_template
    def test_muster_is_told_the_number_of_pods(self, template):
        counts = [variables(c)["MUSTER_NNODES"] for c in template.containers() if "MUSTER_NNODES" in variables(c)]
        expected = [] if template.kind == "TrainJob" else [str(template.nodes)]  # Trainer sets PET_NNODES
        self.assertEqual(expected, counts)
        self.assertEqual(template.nodes, template.job.get("parallelism", template.nodes))

    @for_each_template
    def test_pods_have_names_before_they_are_ready(self, template):
        if template.kind in ("JobSet", "TrainJob"):
            return
        [service] = [d for d in manifests.documents(template.file) if d["kind"] == "Service"]
        self.assertEqual("None", service["spec"]["clusterIP"])
        self.assertTrue(service["spec"]["publishNotReadyAddresses"])
        self.assertEqual(service["metadata"]["name"], template.job.get("serviceName") or template.spec["subdomain"])
        labels = template.template["metadata"]["labels"]
        added = {"job-name": template.base} if template.kind == "Job" else {}
        self.assertLessEqual(service["spec"]["selector"].items(), {**labels, **added}.items())

    def test_a_jobset_publishes_names_before_pods_are_ready(self):
        networks = []
        for file in manifests.files():
            for document in manifests.documents(file.name):
                if document["kind"] == "JobSet":
                    networks.append(document["spec"]["network"])
                if document["kind"] == "ClusterTrainingRuntime":
                    networks.append(document["spec"]["template"]["spec"]["network"])
        self.assertEqual([True, True], [network["publishNotReadyAddresses"] for network in networks])

    @for_each_template
    def test_all_pods_start_at_once(self, template):
        if template.kind == "StatefulSet":
            self.assertEqual("Parallel", template.job["podManagementPolicy"])
        elif template.kind != "TrainJob":  # Trainer sets both
            self.assertEqual(template.job["completions"], template.job["parallelism"])

    def test_the_name_that_trainer_looks_for(self):
        [template] = [t for t in manifests.templates() if t.kind == "TrainJob"]
        self.assertEqual("node", template.training()["name"])
        [runtime] = [d for d in manifests.documents(template.file) if d["kind"] == "ClusterTrainingRuntime"]
        [replicated] = runtime["spec"]["template"]["spec"]["replicatedJobs"]
        self.assertEqual("node", replicated["name"])
        self.assertEqual({"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"},
                         replicated["template"]["metadata"]["labels"])
        [job] = [d for d in manifests.documents(template.file) if d["kind"] == "TrainJob"]
        self.assertEqual((runtime["kind"], runtime["metadata"]["name"]),
                         (job["spec"]["runtimeRef"]["kind"], job["spec"]["runtimeRef"]["name"]))

    # Security.

    @for_each_template
    def test_the_pods_are_restricted(self, template):
        context = template.spec["securityContext"]
        self.assertTrue(context["runAsNonRoot"])
        self.assertGreater(context["runAsUser"], 0)
        self.assertEqual({"type": "RuntimeDefault"}, context["seccompProfile"])
        self.assertFalse(template.spec["automountServiceAccountToken"])
        for forbidden in ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace"):
            self.assertNotIn(forbidden, template.spec)
        for volume in template.spec["volumes"]:
            self.assertNotIn("hostPath", volume)
        for container in template.containers():
            self.assertEqual({"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                              "capabilities": {"drop": ["ALL"]}}, container["securityContext"])

    @for_each_template
    def test_istio_stays_out(self, template):
        labels = template.template["metadata"]["labels"]
        self.assertEqual("false", labels["sidecar.istio.io/inject"])
        self.assertEqual("none", labels["istio.io/dataplane-mode"])

    # Volumes.

    @for_each_template
    def test_every_mount_has_a_volume_and_every_claim_a_file(self, template):
        [claim] = manifests.documents("checkpoints.yaml")
        volumes = {volume["name"]: volume for volume in template.spec["volumes"]}
        mounted = {mount["name"] for c in template.containers() for mount in c["volumeMounts"]}
        self.assertEqual(set(volumes), mounted)
        self.assertEqual({"claimName": claim["metadata"]["name"]}, volumes["checkpoints"]["persistentVolumeClaim"])

    @for_each_template
    def test_shared_memory_is_in_memory_and_limited(self, template):
        [name] = [m["name"] for m in template.training()["volumeMounts"] if m["mountPath"] == "/dev/shm"]
        [volume] = [v for v in template.spec["volumes"] if v["name"] == name]
        self.assertEqual("Memory", volume["emptyDir"]["medium"])
        self.assertIn("sizeLimit", volume["emptyDir"])

    # Probes.

    @for_each_template
    def test_probes_ask_muster_and_no_port(self, template):
        for container in template.runs_muster():
            found = probes(container)
            self.assertLessEqual({"startupProbe", "livenessProbe"}, set(found), container["name"])
            for name, probe in found.items():
                self.assertEqual(set(), {"tcpSocket", "httpGet", "grpc"} & set(probe))
                program, *arguments = asked_of_muster(probe)
                self.assertEqual("muster", pathlib.PurePath(program).name)
                self.assertEqual(["health", "--ready"] if name == "readinessProbe" else ["health"], arguments)

    @for_each_template
    def test_a_pod_is_ready_when_its_workers_run(self, template):
        """The container that has the workers knows."""
        self.assertEqual([template.training()], [c for c in template.runs_muster() if "readinessProbe" in c])

    # Ends.

    @for_each_template
    def test_the_pod_has_longer_than_the_workers(self, template):
        [grace] = [variables(c)["MUSTER_TERMINATION_GRACE"] for c in template.containers()
                   if "MUSTER_TERMINATION_GRACE" in variables(c)]
        self.assertGreaterEqual(template.spec["terminationGracePeriodSeconds"], seconds(grace) + GRACE_MARGIN_S)

    @for_each_template
    def test_exit_codes_are_those_of_the_readme(self, template):
        table = exit_codes_of_reference()
        self.assertLessEqual({64, 65, 69, 70, 75, 77, 93, 126, 127}, table)
        if template.kind == "StatefulSet":
            return
        policy = template.job["podFailurePolicy"]["rules"]
        self.assertEqual({"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
                         policy[0])
        final = policy[1]["onExitCodes"]
        self.assertEqual(("FailJob", "NotIn"), (policy[1]["action"], final["operator"]))
        self.assertEqual(2, len(policy))
        again = set(final["values"])
        self.assertEqual(sorted(again), final["values"])
        self.assertEqual({69, 70, 75}, again - SIGNALS)  # every other code of the table ends the Job
        self.assertLessEqual(again - SIGNALS, table)
        comment = (manifests.FOLDER / template.file).read_text().split("# A new pod, counted:")[1].split("- action")[0]
        retried, ended = comment.split("Every other code")
        self.assertEqual(again, {int(code) for code in re.findall(r"\b\d+\b", retried)})
        self.assertEqual(table - again - {0, 130}, {int(code) for code in re.findall(r"\b\d+\b", ended)})

    @for_each_template
    def test_the_policy_fits_the_job(self, template):
        """What the API server refuses although the schema allows it."""
        if template.kind == "StatefulSet":
            self.assertNotIn("restartPolicy", template.spec)
            return
        self.assertEqual("Indexed", template.job["completionMode"])
        self.assertEqual("Never", template.spec["restartPolicy"])
        self.assertEqual("Failed", template.job["podReplacementPolicy"])
        self.assertEqual(template.training()["name"],
                         template.job["podFailurePolicy"]["rules"][1]["onExitCodes"]["containerName"])
        self.assertEqual(0, template.job["maxFailedIndexes"])
        self.assertGreater(template.job["backoffLimitPerIndex"], 0)
        self.assertNotIn("backoffLimit", template.job)

    @for_each_template
    def test_the_primarys_success_is_the_jobs(self, template):
        if template.kind != "StatefulSet":
            self.assertEqual({"rules": [{"succeededIndexes": "0"}]}, template.job["successPolicy"])

    # Settings.

    @unittest.skipUnless(BINARY.exists(), f"no binary: build it, or set MUSTER_BINARY ({BINARY})")
    @for_each_template
    def test_settings_are_options_of_muster(self, template):
        text = subprocess.run([BINARY, "run", "--help"], capture_output=True, text=True, check=True).stdout
        options = set(re.findall(r"--[a-z][a-z-]+", text))
        for container in template.containers():
            names = [name for name in variables(container) if name.startswith("MUSTER_")]
            asked = {"--" + name.removeprefix("MUSTER_").lower().replace("_", "-") for name in names}
            for line in re.findall(r"muster run .*", " ".join(container.get("command", []))):
                asked |= set(re.findall(r"--[a-z][a-z-]+", line))
            self.assertEqual(set(), asked - options)

    def test_all_manifests_have_the_same_common_parts(self):
        """So that a correction in one is not forgotten in the others."""
        def policy(template):
            rules = [dict(rule) for rule in template.job["podFailurePolicy"]["rules"]]
            rules[1]["onExitCodes"] = {**rules[1]["onExitCodes"], "containerName": ""}
            return rules, template.job["backoffLimitPerIndex"]

        def timing(container):
            return {name: str({**probe, "exec": None}) for name, probe in probes(container).items()}

        found = manifests.templates()
        jobs = [t for t in found if t.kind != "StatefulSet"]
        self.assertEqual(1, len({str(policy(t)) for t in jobs}))
        self.assertEqual(1, len({str(t.spec["securityContext"]) for t in found}))
        self.assertEqual(1, len({str(t.training()["resources"]) for t in found}))
        self.assertEqual(1, len({str(t.spec["volumes"][:3]) for t in found}))
        whole = [t for t in found if not t.is_split()]
        self.assertEqual(1, len({str({name: {**probe, "exec": asked_of_muster(probe)} for name, probe in
                                      probes(t.training()).items()}) for t in whole}))
        for template in found:
            if template.is_split():
                agent, training = template.runs_muster()
                self.assertLess(timing(agent).items(), timing(training).items())
                self.assertEqual(timing(whole[0].training()), timing(training))


class Documents(unittest.TestCase):
    def test_every_file_is_described(self):
        readme = (manifests.FOLDER / "README.md").read_text()
        for file in manifests.files():
            self.assertIn(f"`{file.name}`", readme)

    def test_lines_to_apply_name_files_that_exist(self):
        texts = [path.read_text() for path in manifests.FOLDER.iterdir()]
        named = {name for text in texts for name in re.findall(r"-f ([\w.-]+\.yaml)", text)}
        self.assertEqual({file.name for file in manifests.files()}, named)


if __name__ == "__main__":
    unittest.main()
