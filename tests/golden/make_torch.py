#!/usr/bin/env python3
"""Makes data/*.bin: ten training steps of small networks as PyTorch computes them, in F32.

test_torch.c builds the same networks, starts from the same weights, and must come to the same
losses and the same final weights.  The files are part of the tree: the tests run without
PyTorch.  To make them again:

    python3 -m venv /tmp/torch && /tmp/torch/bin/pip install torch numpy
    /tmp/torch/bin/python tests/golden/make_torch.py

It prints, for each run, how far PyTorch in F32 is from PyTorch in F64: the part of any
difference that is rounding, which should stay well below the 1e-5 that the test allows.

A file is a list of records until its end.  A record is a line of text,

    name dtype extent extent ...\\n        (dtype f32 or i32; no extents: a scalar)

followed at once by the elements, packed, outermost dimension first, four little-endian bytes
each.  Records: "init.PATH" and "final.PATH" for each parameter, "loss" [10], with clipping
"norm" [10] (before it), and the inputs, whose first dimension is the step where it is 10.
"""

import os

import numpy as np
import torch
import torch.nn.functional as F

STEPS = 10
HERE = os.path.dirname(os.path.abspath(__file__))


# ---- the file ----


def write_records(name, records):
    path = os.path.join(HERE, "data", name + ".bin")
    with open(path, "wb") as out:
        for key, value in records.items():
            array = np.ascontiguousarray(value)
            kind = {"float32": "f32", "int32": "i32"}[str(array.dtype)]
            head = " ".join([key, kind] + [str(n) for n in np.shape(value)])
            out.write(head.encode() + b"\n" + array.astype(array.dtype.newbyteorder("<")).tobytes())
    return os.path.getsize(path)


# ---- networks: dictionaries of parameters, and functions of them ----


def linear(p, name, x):
    return F.linear(x, p[name + ".weight"], p.get(name + ".bias"))


def draw_linear(p, name, n_in, n_out, bias=True):
    bound = n_in**-0.5
    p[name + ".weight"] = torch.empty(n_out, n_in).uniform_(-bound, bound)
    if bias:
        p[name + ".bias"] = torch.empty(n_out).uniform_(-bound, bound)


def rms_norm(x, weight, eps):
    return F.rms_norm(x, (x.shape[-1],), weight, eps)


class TinyLlm:
    """Embedding, per layer h + down(silu(up(norm(h)))), head; as in examples/easy.c."""

    vocabulary, width, hidden, layers, batch, length = 32, 16, 32, 2, 2, 8

    def draw(self):
        p = {"embed.weight": torch.randn(self.vocabulary, self.width)}
        for i in range(self.layers):
            p[f"{i}.norm.weight"] = torch.ones(self.width)
            draw_linear(p, f"{i}.up", self.width, self.hidden)
            draw_linear(p, f"{i}.down", self.hidden, self.width)
        draw_linear(p, "head", self.width, self.vocabulary)
        ids = torch.randint(self.vocabulary, (STEPS, self.batch, self.length))
        targets = torch.randint(self.vocabulary, (STEPS, self.batch, self.length))
        return p, {"ids": ids, "targets": targets}

    def loss(self, p, x, step):
        h = F.embedding(x["ids"][step], p["embed.weight"])
        for i in range(self.layers):
            r = rms_norm(h, p[f"{i}.norm.weight"], 1e-5)
            h = h + linear(p, f"{i}.down", F.silu(linear(p, f"{i}.up", r)))
        logits = linear(p, "head", h)
        return F.cross_entropy(logits.flatten(0, 1), x["targets"][step].flatten())


def rope(x, positions, factors=None, base=10000.0, scale=1.0, dims=None, neox=False):
    """x [b, t, h, d]; rotates the first `dims` of d, in pairs."""
    dims = dims or x.shape[-1]
    i = torch.arange(dims // 2, dtype=torch.float64)
    angle = positions.double()[:, None] * scale * base ** (-2 * i / dims)
    angle = angle.to(x.dtype) if factors is None else (angle / factors.double()).to(x.dtype)
    c, s = angle.cos()[:, None, :], angle.sin()[:, None, :]  # [t, 1, dims / 2]
    rotated, rest = x[..., :dims], x[..., dims:]
    if neox:
        a, b = rotated[..., : dims // 2], rotated[..., dims // 2 :]
        return torch.cat([a * c - b * s, a * s + b * c, rest], -1)
    a, b = turned[..., 0::2], turned[..., 1::2]
    return torch.cat([torch.stack([a * c - b * s, a * s + b * c], -1).flatten(-2), rest], -1)


def attention(q, k, v, causal):
    """q [b, t, h, d], k and v [b, s, g, d]: g heads, each for h / g of q's."""
    group = q.shape[2] // k.shape[2]
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    score = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    if causal:
        t, s = score.shape[-2:]
        score = score.masked_fill(~torch.ones(t, s, dtype=torch.bool).tril(s - t), -torch.inf)
    return (score.softmax(-1) @ v).transpose(1, 2)


class EveryOp:
    """Uses every op that has a gradient.  Of no sense, but every number in it matters."""

    vocabulary, width, batch, length = 12, 8, 2, 6
    heads, groups, head_width, picked, piece = 2, 1, 4, 4, 3
    experts, chosen = 4, 2
    activations = (
        torch.tanh,
        torch.sigmoid,
        torch.relu,
        lambda x: F.gelu(3 * x),  # the two forms differ most near 2
        lambda x: F.gelu(3 * x, approximate="tanh"),
        F.silu,
        F.softplus,
    )

    def draw(self):
        d, pieces = self.width, len(self.activations)
        p = {"embed.weight": torch.randn(self.vocabulary, d)}
        p["norm1.weight"] = 1 + 0.1 * torch.randn(d)
        draw_linear(p, "q", d, self.heads * self.head_width)
        draw_linear(p, "k", d, self.groups * self.head_width, bias=False)
        draw_linear(p, "v", d, self.groups * self.head_width)
        draw_linear(p, "o", self.heads * self.head_width, d)
        p["norm2.weight"] = 1 + 0.1 * torch.randn(d)
        p["norm2.bias"] = 0.1 * torch.randn(d)
        draw_linear(p, "up", d, self.piece * pieces)
        draw_linear(p, "down", self.piece * pieces, d)
        draw_linear(p, "head", d, self.vocabulary)
        p["shift"] = torch.rand(d)
        p["time"] = 0.3 * torch.randn(self.length, self.length)
        p["gate"] = torch.randn(d)
        p["half"] = torch.randn(d)
        p["offset"] = 0.3 * torch.randn(d)
        p["router"] = torch.randn(self.experts, d)
        p["experts"] = 0.3 * torch.randn(self.experts, d, d)

        b, t = self.batch, self.length
        return p, {
            "ids": torch.randint(self.vocabulary, (STEPS, b, t)),
            "targets": torch.randint(self.vocabulary, (STEPS, b, t)),
            "want": torch.randn(STEPS, b, t, d),
            "positions": torch.arange(t) + 3,
            "factors": 1 + torch.rand(self.head_width // 2),
            "from": torch.randint(t, (b, self.picked, d)),
            "to": torch.randint(t, (b, self.picked, d)),
        }

    def attend(self, p, x, h):
        b, t, d = self.batch, self.length, self.head_width
        r = rms_norm(h, p["norm1.weight"], 1e-5)
        q = linear(p, "q", r).reshape(b, t, self.heads, d)
        k = linear(p, "k", r).reshape(b, t, self.groups, d)
        v = linear(p, "v", r).reshape(b, t, self.groups, d)
        turn = {"factors": x["factors"], "base": 100.0, "neox": True}
        q, k = rope(q, x["positions"], **turn), rope(k, x["positions"], **turn)
        v = rope(v, x["positions"], scale=0.5, dims=2)
        return h + linear(p, "o", attention(q, k, v, causal=True).reshape(b, t, -1))

    def mix_times(self, p, h):
        y = (h.transpose(1, 2) @ p["time"]).permute(0, 2, 1)  # [b, t, d]
        gram = (y.transpose(1, 2) @ h).softmax(1)  # [b, d, d]
        return h + 0.5 * (h @ gram)

    def feed_forward(self, p, h):
        u = linear(p, "up", F.layer_norm(h, (self.width,), p["norm2.weight"], p["norm2.bias"], 1e-3))
        n = self.piece
        pieces = [f(u[..., i * n : (i + 1) * n]) for i, f in enumerate(self.activations)]
        return h + linear(p, "down", torch.cat(pieces, -1))

    def reshape_values(self, p, h):
        """exp, neg, log, sqrt, div; then cast, copy and broadcast."""
        gate = p["gate"]
        up, low = torch.exp(-0.5 * -gate + 0.1), torch.sqrt(F.softplus(gate) + 0.5)
        h = h * (torch.log(up + 1.5) / low)
        half = (0.01 * p["half"]).half().to(h.dtype)
        return h + half + p["offset"].expand(h.shape).clone()

    def mix_experts(self, p, h):
        """Each row through two of the experts, twice: weighed among the two and among all."""
        rows = h.flatten(0, 1)
        share = F.linear(rows, p["router"]).softmax(-1)
        weight, expert = share.topk(self.chosen, -1)  # [t, k]
        weight = weight + weight / weight.sum(-1, keepdim=True)
        y = torch.einsum("td,tknd->tkn", rows, p["experts"][expert])
        return h + 0.3 * (weight[..., None] * y).sum(1).reshape(h.shape)

    def loss(self, p, x, step):
        h = F.dropout(F.embedding(x["ids"][step], p["embed.weight"]), 0.0)
        before = F.pad(h, (0, 0, 1, 0))[:, : self.length]
        h = h + p["shift"] * (before - h)
        h = self.reshape_values(p, self.feed_forward(p, self.mix_times(p, self.attend(p, x, h))))
        h = self.mix_experts(p, h)
        h = h.scatter_add(1, x["to"], h.gather(1, x["from"]))

        peak = h.amax(1, keepdim=True)  # [b, 1, d]
        h = h - 0.3 * h.mean(-1, keepdim=True) + 0.1 * peak
        logits = linear(p, "head", h)
        loss = F.cross_entropy(logits.flatten(0, 1), x["targets"][step].flatten())
        loss = loss + 0.5 * F.mse_loss(torch.tanh(h), x["want"][step])
        return loss - 0.1 * logits.log_softmax(1).mean() + 0.01 * (h * h).sum((0, 2)).mean()


# ---- training ----


def train(network, init, inputs, make_optimizer, limit, dtype):
    p = {k: v.detach().clone().to(dtype).requires_grad_() for k, v in init.items()}
    x = {k: v.to(dtype) if v.is_floating_point() else v for k, v in inputs.items()}
    optimizer = make_optimizer(p.values())
    losses, norms = [], []
    for step in range(STEPS):
        loss = network.loss(p, x, step)
        loss.backward()
        if limit is not None:
            norms.append(torch.nn.utils.clip_grad_norm_(p.values(), limit).item())
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses, norms, {k: v.detach() for k, v in p.items()}


def far(got, want):
    got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
    return float(np.max(np.abs(got - want) / (1 + np.abs(want)), initial=0))


def make(name, network, make_optimizer, limit=None):
    init, inputs = network.draw()
    losses, norms, final = train(network, init, inputs, make_optimizer, limit, torch.float32)
    exact = train(network, init, inputs, make_optimizer, limit, torch.float64)

    records = {"init." + k: v.numpy() for k, v in init.items()}
    for k, v in inputs.items():
        records[k] = v.numpy() if v.is_floating_point() else v.numpy().astype(np.int32)
    records["loss"] = np.array(losses, np.float32)
    if limit is not None:
        records["norm"] = np.array(norms, np.float32)
    records |= {"final." + k: v.numpy() for k, v in final.items()}
    size = write_records(name, records)

    rounding = max([far(losses, exact[0])] + [far(final[k], exact[2][k]) for k in final])
    print(f"{name}: {size} bytes, loss {losses[0]:.4f} -> {losses[-1]:.4f}, F32 from F64: {rounding:.1e}")
    if limit is not None:
        print(f"  norms {min(norms):.3f} to {max(norms):.3f}, clipped above {limit}")


def main():
    torch.set_num_threads(1)
    torch.manual_seed(2)
    print("PyTorch", torch.__version__)
    make("tiny_llm_adamw", TinyLlm(), lambda p: torch.optim.AdamW(p, lr=1e-2))
    make(
        "every_op_adamw",
        EveryOp(),
        lambda p: torch.optim.AdamW(p, lr=5e-3, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1),
        limit=2.5,
    )
    make("every_op_sgd", EveryOp(), lambda p: torch.optim.SGD(p, lr=0.02, momentum=0.9))
    make(
        "every_op_nesterov",
        EveryOp(),
        lambda p: torch.optim.SGD(p, lr=0.02, momentum=0.8, weight_decay=0.05, nesterov=True),
        limit=1.5,
    )


if __name__ == "__main__":
    main()
