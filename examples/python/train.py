"""Trains a small network with numpy arrays in and out: python examples/python/train.py"""
import numpy as np

import ingot
from ingot import nn, optim


class Net(nn.Module):
    """Two numbers -> their product."""

    def __init__(self):
        super().__init__()
        self.up = nn.Linear(2, 32)
        self.down = nn.Linear(32, 1)

    def forward(self, x):
        return self.down(self.up(x).tanh())


ingot.init(seed=1)
ingot.mode("auto")  # op by op for three steps, then each step is replayed as a whole

rng = np.random.default_rng(0)
net = Net()
optimizer = optim.AdamW(net.parameters(), lr=1e-2)
x, y = ingot.tensor(np.zeros((64, 2), np.float32)), ingot.tensor(np.zeros((64, 1), np.float32))

for step in range(1, 401):
    rows = rng.uniform(-1, 1, (64, 2)).astype(np.float32)
    x.write(rows)
    y.write(rows[:, :1] * rows[:, 1:])
    loss = ingot.ops.mse(net(x), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if step % 100 == 0:
        print(f"step {step}  loss {loss.item():.5f}")

with ingot.no_grad():
    print("0.5 * 0.5 =", round(net(ingot.tensor([[0.5, 0.5]])).item(), 2))
