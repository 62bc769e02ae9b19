"""Lightning: it must detect that a launcher has started its processes, and start none itself."""
import ending
import lightning
import torch


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch, _):
        self.last_loss = self.layer(batch).pow(2).mean()
        return self.last_loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


lightning.seed_everything(1)
data = torch.utils.data.DataLoader(torch.randn(24, 4, generator=torch.Generator().manual_seed(1)), batch_size=4)
trainer = lightning.Trainer(accelerator="cpu", devices=2, strategy="ddp", max_epochs=1, logger=False,
                            enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
model = Model()
trainer.fit(model, data)
mean = trainer.strategy.reduce(model.last_loss.detach())
print(f"result rank={trainer.global_rank} world={trainer.world_size} value={mean:.5f}", flush=True)
ending.leave()
