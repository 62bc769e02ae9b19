"""Transformers' Trainer with two DataLoader workers, which saves at SIGTERM."""
import stopping
import torch

stopping.begin()
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments  # noqa: E402


class Steps(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        stopping.note_step(state.global_step)


model = GPT2LMHeadModel(GPT2Config(vocab_size=32, n_positions=8, n_embd=8, n_layer=1, n_head=1, bos_token_id=0,
                                   eos_token_id=0))
tokens = torch.randint(0, 32, (4096, 8))
arguments = TrainingArguments(output_dir=str(stopping.FOLDER), use_cpu=True, max_steps=stopping.STEPS, report_to=[],
                              disable_tqdm=True, save_strategy="no", logging_strategy="no", dataloader_num_workers=2,
                              enable_jit_checkpoint=True)
trainer = Trainer(model=model, args=arguments, train_dataset=[{"input_ids": row, "labels": row} for row in tokens],
                  callbacks=[Steps()])
trainer.train()
