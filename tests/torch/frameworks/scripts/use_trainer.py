"""Transformers' Trainer with a tiny random model and generated data: nothing is downloaded."""
import sys

import ending
import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed

set_seed(1)
model = GPT2LMHeadModel(GPT2Config(vocab_size=32, n_positions=8, n_embd=8, n_layer=1, n_head=1, bos_token_id=0,
                                   eos_token_id=0))
tokens = torch.randint(0, 32, (16, 8), generator=torch.Generator().manual_seed(1))
arguments = TrainingArguments(output_dir=sys.argv[1], use_cpu=True, max_steps=3, per_device_train_batch_size=2,
                              report_to=[], disable_tqdm=True, save_strategy="no", logging_strategy="no", seed=1)
trainer = Trainer(model=model, args=arguments, train_dataset=[{"input_ids": row, "labels": row} for row in tokens])
loss = trainer.train().training_loss
print(f"result rank={arguments.process_index} world={arguments.world_size} value={loss:.4f}", flush=True)
ending.leave()
