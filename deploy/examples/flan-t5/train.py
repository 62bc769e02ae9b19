r"""Fine-tunes a T5 to summarise dialogues, with Hugging Face Transformers and DeepSpeed ZeRO.

muster starts it, one process per accelerator. If a worker or a node dies, all processes start again and continue from
the newest complete checkpoint. README.md has the commands.

  muster run --node-setup 'sh fetch.sh /tmp/flan' train.py --model /tmp/flan/model --data /tmp/flan/data/train.csv \
      --output /gcs/BUCKET/flan
"""
import argparse
import csv
import os
import pathlib
import shutil

import torch
import torch.distributed as dist
from accelerate import PartialState
from transformers import (AutoModelForSeq2SeqLM, AutoTokenizer, DataCollatorForSeq2Seq, PrinterCallback,
                          Seq2SeqTrainer, Seq2SeqTrainingArguments, TrainerCallback)

HERE = pathlib.Path(__file__).resolve().parent
COMPLETE = "complete"  # the file that marks a checkpoint to which every rank has written its part
HAS_GPU = torch.cuda.is_available()


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="folder with the model and its tokenizer")
    parser.add_argument("--data", required=True, help="CSV file with the columns dialogue and summary")
    parser.add_argument("--output", required=True, type=pathlib.Path, help="folder that all nodes see: checkpoints, "
                        "and the trained model in final/")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--save-every", type=int, default=100, metavar="STEPS")
    parser.add_argument("--log-every", type=int, default=10, metavar="STEPS")
    parser.add_argument("--batch-size", type=int, default=8, help="dialogues per worker and step")
    parser.add_argument("--learning-rate", type=float, default=1e-4)
    return parser.parse_args()


class Dialogues(torch.utils.data.Dataset):
    def __init__(self, path, tokenizer):
        with open(path, newline="", encoding="utf-8") as file:
            self.rows = list(csv.DictReader(file))
        self.tokenizer = tokenizer

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        row = self.rows[index]
        sample = self.tokenizer("summarize: " + row["dialogue"], max_length=512, truncation=True)
        sample["labels"] = self.tokenizer(text_target=row["summary"], max_length=128, truncation=True)["input_ids"]
        return sample


class Progress(TrainerCallback):
    """Prints the loss, and marks a checkpoint as complete once every rank has written its part of it.

    A kill while the ranks write leaves a folder that has the right name but lacks files of some ranks.
    """

    def on_log(self, args, state, control, logs=None, **kwargs):
        if state.is_world_process_zero and "loss" in logs:
            print(f"step {state.global_step} of {state.max_steps}  loss {logs['loss']:.6f}", flush=True)

    def on_save(self, args, state, control, **kwargs):
        dist.barrier()
        if state.is_world_process_zero:
            pathlib.Path(args.output_dir, f"checkpoint-{state.global_step}", COMPLETE).touch()


def newest_step(output):
    """The step of the newest complete checkpoint as rank 0 sees it, or 0. Removes what a kill left half written."""
    found = [0]
    if dist.get_rank() == 0:
        for folder in output.glob("checkpoint-*"):
            if (folder / COMPLETE).exists():
                found = [max(found[0], int(folder.name.split("-")[1]))]
            else:
                print(f"{folder.name} is not complete: removing it", flush=True)
                shutil.rmtree(folder)
        print(f"starting from step {found[0]} of the training", flush=True)
    dist.broadcast_object_list(found)
    return found[0]


def join_without_gpu():
    """Connects the ranks by gloo, to try the example on CPUs, which Transformers does not set up for DeepSpeed."""
    os.environ["DS_ACCELERATOR"] = "cpu"
    import deepspeed  # after the variable, which it reads when it is imported
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # otherwise every start would need a C++ compiler
    os.environ["ACCELERATE_USE_DEEPSPEED"] = "true"
    PartialState(backend="gloo")


def main():
    options = parse_arguments()
    print(f"worker rank={os.environ['RANK']} world={os.environ['WORLD_SIZE']} node={os.environ['GROUP_RANK']} "
          f"restart={os.environ['TORCHELASTIC_RESTART_COUNT']} pid={os.getpid()}", flush=True)
    if not HAS_GPU:
        join_without_gpu()
    arguments = Seq2SeqTrainingArguments(
        output_dir=str(options.output), deepspeed=str(HERE / "ds_config.json"), bf16=HAS_GPU,
        max_steps=options.steps, per_device_train_batch_size=options.batch_size, learning_rate=options.learning_rate,
        save_strategy="steps", save_steps=options.save_every,
        save_total_limit=2,  # at least 2: the older one is needed while the ranks write the newer one
        logging_steps=options.log_every, disable_tqdm=True, report_to="none", seed=1,
        dataloader_pin_memory=HAS_GPU, accelerator_config={"use_configured_state": not HAS_GPU})

    tokenizer = AutoTokenizer.from_pretrained(options.model)
    model = AutoModelForSeq2SeqLM.from_pretrained(options.model)
    model.accepts_loss_kwargs = False  # T5 averages its loss itself; otherwise Trainer multiplies it by the workers
    trainer = Seq2SeqTrainer(model=model, args=arguments, processing_class=tokenizer,
                             train_dataset=Dialogues(options.data, tokenizer),
                             data_collator=DataCollatorForSeq2Seq(tokenizer, model=model), callbacks=[Progress()])
    trainer.remove_callback(PrinterCallback)

    step = newest_step(options.output)
    if step < options.steps:  # else a worker was lost after the last step, and Trainer would train one step more
        trainer.train(resume_from_checkpoint=str(options.output / f"checkpoint-{step}") if step > 0 else None)
    if dist.get_rank() == 0:
        trained = AutoModelForSeq2SeqLM.from_pretrained(options.output / f"checkpoint-{options.steps}")
        trained.save_pretrained(options.output / "final")  # the model alone, without the optimizer's state
        tokenizer.save_pretrained(options.output / "final")
    dist.barrier()
    # Everything is saved. From here on muster treats an error of this process, such as a crash while the interpreter
    # unloads its libraries, as a success with a warning.
    if "MUSTER_DONE_FILE" in os.environ:
        pathlib.Path(os.environ["MUSTER_DONE_FILE"]).touch()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
