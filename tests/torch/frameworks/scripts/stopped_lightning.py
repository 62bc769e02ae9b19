"""Lightning with two DataLoader workers, which saves at SIGTERM, and at SIGUSR1 for its requeue on Slurm."""
import os
import time

import stopping

stopping.begin()
import lightning  # noqa: E402
import torch  # noqa: E402
from lightning.pytorch.callbacks import OnExceptionCheckpoint  # noqa: E402
from lightning.pytorch.plugins.environments import SLURMEnvironment  # noqa: E402

os.environ |= {"SLURM_JOB_ID": "1", "SLURM_NTASKS": "1", "SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NODEID": "0",
               "PATH": ""}  # no scontrol is found


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch, _):
        stopping.note_step(self.global_step)
        return self.layer(batch).pow(2).mean()

    def on_save_checkpoint(self, checkpoint):
        time.sleep(1)  # as long as a larger one takes

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


data = torch.utils.data.DataLoader(torch.randn(4096, 4), batch_size=4, num_workers=2)
trainer = lightning.Trainer(accelerator="cpu", devices=1, max_steps=stopping.STEPS, logger=False,
                            enable_progress_bar=False, enable_model_summary=False, default_root_dir=stopping.FOLDER,
                            callbacks=[OnExceptionCheckpoint(stopping.FOLDER)], plugins=[SLURMEnvironment()])
trainer.fit(Model(), data)
