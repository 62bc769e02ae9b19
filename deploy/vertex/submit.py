"""Submits the job of custom-job.yaml by Vertex AI's Python SDK, as a CustomContainerTrainingJob.

  pip install -r deploy/vertex/requirements.txt
  python deploy/vertex/submit.py --project my-project --bucket my-bucket --image REGION-docker.pkg.dev/.../llm:1

The image has ENTRYPOINT ["muster", "run"], as deploy/docker/training.Dockerfile makes it. The SDK makes pool 0 of one
replica and pool 1 of the others. README.md says what one then sees.
"""
import argparse

from google.cloud import aiplatform

REDUCTION_SERVER = "us-docker.pkg.dev/vertex-ai-restricted/training/reductionserver:latest"  # also europe-, asia-docker
WEEK_S = 7 * 24 * 60 * 60


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--project", required=True)
    parser.add_argument("--location", default="us-central1")
    parser.add_argument("--bucket", required=True, help="without gs://; in the same location")
    parser.add_argument("--image", required=True)
    parser.add_argument("--name", default="llm", help="of the job, and of its folder in the bucket")
    parser.add_argument("--replicas", type=int, default=4, help="nodes that train, the primary among them")
    parser.add_argument("--machine-type", default="a2-highgpu-8g")
    parser.add_argument("--accelerator-type", default="NVIDIA_TESLA_A100")
    parser.add_argument("--accelerator-count", type=int, default=8)
    parser.add_argument("--reduction-servers", type=int, default=0, help="replicas of pool 2")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    aiplatform.init(project=arguments.project, location=arguments.location)
    job = aiplatform.CustomContainerTrainingJob(
        display_name=arguments.name, container_uri=arguments.image, staging_bucket=f"gs://{arguments.bucket}")
    reduction_server = {} if arguments.reduction_servers == 0 else {
        "reduction_server_replica_count": arguments.reduction_servers,
        "reduction_server_machine_type": "n1-highcpu-16",
        "reduction_server_container_uri": REDUCTION_SERVER}
    job.submit(
        # Options of muster, then the script and its arguments. The content of gs://BUCKET is at /gcs/BUCKET.
        args=["train.py", "--checkpoint", f"/gcs/{arguments.bucket}/{arguments.name}/checkpoints/checkpoint.pt"],
        base_output_dir=f"gs://{arguments.bucket}/{arguments.name}",
        replica_count=arguments.replicas,
        machine_type=arguments.machine_type,
        accelerator_type=arguments.accelerator_type,
        accelerator_count=arguments.accelerator_count,
        boot_disk_size_gb=200,
        timeout=WEEK_S,
        # A replica that is lost comes back under the same name, and muster takes it back into the job.
        restart_job_on_worker_restart=False,
        # Otherwise a job that ends with 134, muster's code for "worth a retry", would not be run again.
        disable_retries=False,
        **reduction_server)
    print(f"submitted: {job.resource_name}")


if __name__ == "__main__":
    main()
