"""Starts a training job on SageMaker, as a ModelTrainer of version 3 of SageMaker's Python SDK: 2 instances of 8 GPUs.

  pip install -r deploy/sagemaker/requirements.txt
  python deploy/sagemaker/submit.py --bucket my-bucket --role ARN --image ACCOUNT.dkr.ecr.REGION.amazonaws.com/llm:1

The image has ENTRYPOINT ["muster", "run"], as deploy/docker/training.Dockerfile makes it. README.md says what one then
sees. Version 2 of the SDK has another class for this, Estimator; this script is not for it.
"""
import argparse

from sagemaker.core.shapes import OutputDataConfig
from sagemaker.train import ModelTrainer
from sagemaker.train.configs import CheckpointConfig, Compute, StoppingCondition

CHECKPOINTS = "/opt/ml/checkpoints"  # SageMaker copies what is written there to the bucket, and back when a job starts
DAY_S = 24 * 60 * 60


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--image", required=True)
    parser.add_argument("--bucket", required=True, help="without s3://; for checkpoints and output")
    parser.add_argument("--role", required=True, help="the ARN of the job's role")
    parser.add_argument("--name", default="llm", help="of the job, and of its folder in the bucket")
    parser.add_argument("--instances", type=int, default=2)
    parser.add_argument("--instance-type", default="ml.p4d.24xlarge")
    parser.add_argument("--spot", action="store_true", help="use spot machines, and wait for them up to 2 days")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    folder = f"s3://{arguments.bucket}/{arguments.name}"
    # No source_code: with it the SDK would replace the image's ENTRYPOINT by a shell script of its own.
    trainer = ModelTrainer(
        base_job_name=arguments.name,
        training_image=arguments.image,
        role=arguments.role,
        compute=Compute(instance_type=arguments.instance_type, instance_count=arguments.instances,
                        volume_size_in_gb=200, enable_managed_spot_training=arguments.spot),
        stopping_condition=StoppingCondition(max_runtime_in_seconds=DAY_S,
                                             max_wait_time_in_seconds=2 * DAY_S if arguments.spot else None),
        checkpoint_config=CheckpointConfig(s3_uri=f"{folder}/checkpoints", local_path=CHECKPOINTS),
        output_data_config=OutputDataConfig(s3_output_path=f"{folder}/output"),
        # SageMaker runs the image with the one argument `train`, so the script comes from SAGEMAKER_PROGRAM.
        # Every option of muster may be set here, as MUSTER_ and its name.
        environment={"SAGEMAKER_PROGRAM": "/app/train.py", "MUSTER_HYPERPARAMETERS_AS_ARGS": "1"},
        # The script's arguments: --checkpoint /opt/ml/checkpoints/checkpoint.pt
        hyperparameters={"checkpoint": f"{CHECKPOINTS}/checkpoint.pt"})
    trainer.train(wait=False, logs=False)
    print(f"submitted: {trainer._latest_training_job.training_job_name}")  # the SDK has no public name for it


if __name__ == "__main__":
    main()
