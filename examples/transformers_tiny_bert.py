"""Transformers' Trainer over hvdlite: one line before TrainingArguments.

hvdliterun -np 2 python examples/transformers_tiny_bert.py

A small BERT with random weights learns whether a text has more words of one kind than of another.
It needs no network.
"""

import argparse
import tempfile

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

import hvdlite.torch.distributed


class Texts(torch.utils.data.Dataset):
    """Texts of 8 words, of a vocabulary of 20."""

    def __init__(self, first, count):
        self.first, self.count = first, count

    def __len__(self):
        return self.count

    def __getitem__(self, number):
        generator = torch.Generator().manual_seed(self.first + number)
        words = torch.randint(0, 20, (9,), generator=generator)
        return {"input_ids": words, "labels": int((words > 9).sum() > 4)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=3)
    args = parser.parse_args()

    hvdlite.torch.distributed.init()
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=20, hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=32, num_labels=2,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder, num_train_epochs=args.epochs, per_device_train_batch_size=16,
            learning_rate=5e-3, save_strategy="no", report_to=[], disable_tqdm=True,
            logging_strategy="no",
        )  # fmt: skip
        trainer = Trainer(BertForSequenceClassification(config), arguments, Texts(0, 512))
        trainer.train()
        predicted = trainer.predict(Texts(1000, 128))
    accuracy = (predicted.predictions.argmax(1) == predicted.label_ids).mean()
    if trainer.is_world_process_zero():
        print(f"{arguments.world_size} ranks, accuracy {accuracy:.3f}", flush=True)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
