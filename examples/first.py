import torch

import hvdlite.torch as hvd

hvd.init()
model = torch.nn.Linear(10, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
hvd.broadcast_parameters(model.state_dict(), root_rank=0)

for step in range(101):
    x = torch.randn(32, 10)  # this process's part of the data
    loss = ((model(x) - x.sum(dim=1, keepdim=True)) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()  # gradients are averaged while the backward pass runs
    optimizer.step()
    if step % 20 == 0 and hvd.rank() == 0:
        print(f"step {step}: loss {loss.item():.4f}, {hvd.size()} processes")
