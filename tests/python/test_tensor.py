"""Tensor, nn and optim: values and gradients beside numpy's, training in every mode."""
import gc
import os
import tempfile
import threading
import unittest

from support import ingot, needs_numpy

try:
    import numpy as np
except ImportError:
    np = None

TOLERANCE = 1e-5  # of F32 sums of a few terms
GRADIENT_TOLERANCE = 2e-3  # of differences over 2 * 1e-2 in F32


@needs_numpy
class Values(unittest.TestCase):
    def setUp(self):
        ingot.init("cpu")
        self.x = np.random.default_rng(3).standard_normal((3, 4)).astype(np.float32)
        self.y = np.random.default_rng(4).uniform(0.5, 2, (3, 4)).astype(np.float32)

    def near(self, got, want):
        self.assertEqual(got.shape, np.shape(want))
        np.testing.assert_allclose(got.numpy(), want, rtol=TOLERANCE, atol=TOLERANCE)

    def test_operators_are_those_of_numpy(self):
        x, y, a, b = self.x, self.y, ingot.tensor(self.x), ingot.tensor(self.y)
        for got, want in ((a + b, x + y), (a - b, x - y), (a * b, x * y), (a / b, x / y),
                          (a + 2, x + 2), (2 - a, 2 - x), (3 * a, 3 * x), (1 / b, 1 / y),
                          (a / 4, x / 4), (-a, -x), (b ** 2, y ** 2), (b ** 0.5, y ** 0.5),
                          (b ** 1.5, y ** 1.5), (a @ b.T, x @ y.T), (a == a, x == x),
                          (a + y, x + y), (x - b, x - y), (a + y[0], x + y[0])):
            self.near(got, want)

    def test_views_and_reductions_are_those_of_numpy(self):
        x, a = self.x, ingot.tensor(self.x)
        for got, want in ((a[1], x[1]), (a[-1, 2], x[-1, 2]), (a[:, 1:3], x[:, 1:3]),
                          (a[..., 0], x[..., 0]), (a.reshape(2, -1), x.reshape(2, -1)),
                          (a.T, x.T), (a.sum(), x.sum()), (a.sum(0), x.sum(0)),
                          (a.mean(-1, keepdims=True), x.mean(-1, keepdims=True)),
                          (a.max(1), x.max(1)), (a.argmax(1), x.argmax(1)),
                          (a.permute(1, 0), x.T), (a.exp(), np.exp(x)), (a.tanh(), np.tanh(x)),
                          (a.relu(), np.maximum(x, 0)), (a[2:1], x[2:1])):
            self.near(got, want)
        self.near(ingot.ops.concat([a, a], 1), np.concatenate([x, x], 1))
        self.near(ingot.ops.full((2, 3), 7), np.full((2, 3), 7.0))
        self.assertEqual([row.shape for row in a], [(4,)] * 3)
        with self.assertRaises(IndexError):
            a[3]

    def test_dtypes_cross_the_border(self):
        for array, dtype in ((np.arange(4), "i32"), (np.arange(4.0), "f64"),
                             (np.arange(4, dtype=np.float16), "f16"), (np.array([True, False]), "f32")):
            made = ingot.tensor(array)
            self.assertEqual(made.dtype, dtype)
            self.assertTrue(np.array_equal(made.numpy(), array))
        self.assertEqual(ingot.tensor([1.5, 2]).dtype, "f32")
        self.assertEqual(ingot.tensor(3).item(), 3)
        half = ingot.tensor([1.0, 1.0 + 2 ** -12], dtype="bf16")
        self.assertEqual((half.dtype, half.tolist()), ("bf16", [1.0, 1.0]))
        self.assertTrue(np.array_equal(np.from_dlpack(ingot.tensor(self.x)), self.x))
        strided = self.x[:, ::2]
        self.assertTrue(np.array_equal(np.asarray(ingot.tensor(strided)), strided))
        self.assertEqual(ingot.tensor(np.zeros((0, 3))).shape, (0, 3))

    def test_what_does_not_fit_raises_at_once(self):
        a = ingot.tensor(self.x)
        with self.assertRaisesRegex(ingot.ShapeError, r"\[3,4\] x \[3,4\]"):
            a @ a
        self.near(a + a, self.x + self.x)
        for wrong in (lambda: ingot.tensor([2 ** 40]), lambda: ingot.tensor(["a"]),
                      lambda: ingot.tensor([1.0], dtype="parrot"), lambda: a.write([1.0]),
                      lambda: a.reshape(5, 5), lambda: ingot.mode("parrot")):
            with self.assertRaises(ValueError):
                wrong()
        with self.assertRaises(ingot.UnsupportedError):
            a[::2]

    def test_more_memory_than_there_is_is_a_memory_error(self):
        with self.assertRaises(MemoryError):
            ingot.ops.full((1 << 23, 1 << 23), 1.0) + 1
        self.near(ingot.tensor(self.x) + 1, self.x + 1)

    def test_gradients_are_those_of_differences(self):
        w = np.random.default_rng(5).standard_normal((4, 2)).astype(np.float32)

        def loss(weight, x):
            h = (x @ weight).tanh()
            return (h * h).mean() + h.softmax().max(-1).sum()

        tensor = ingot.tensor(w, requires_grad=True)
        loss(tensor, ingot.tensor(self.x)).backward()
        got, step = tensor.grad.numpy(), 1e-2
        for place in np.ndindex(w.shape):
            ends = []
            for sign in (1, -1):
                moved = w.copy()
                moved[place] += sign * step
                ends.append(loss(ingot.tensor(moved), ingot.tensor(self.x)).item())
            self.assertAlmostEqual(got[place], (ends[0] - ends[1]) / (2 * step),
                                   delta=GRADIENT_TOLERANCE)
        tensor.zero_grad()
        self.assertIsNone(tensor.grad)

    def test_nothing_is_recorded_without_gradients(self):
        w = ingot.tensor(self.x, requires_grad=True)
        with ingot.no_grad():
            loss = (w * w).sum()
        with self.assertRaises(ingot.IngotError):
            loss.backward()
        self.assertIsNone(w.grad)

    def test_a_scope_releases_what_no_tensor_refers_to(self):
        a = ingot.tensor(self.x)
        with ingot.scope():
            kept = a + 1
            for _ in range(50):
                a * 2
        gc.collect()
        counted = ingot.report()["parts"][0]["counters"]["tensors"]
        self.near(kept, self.x + 1)
        self.assertLess(counted, 20)

    def test_threads_share_tensors(self):
        a, made = ingot.tensor(self.x), []

        def work():
            for _ in range(50):
                made.append((a + 1).sum().item())

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(set(made)), 1)


@needs_numpy
class Training(unittest.TestCase):
    def net(self):
        class Net(ingot.nn.Module):
            def __init__(self):
                super().__init__()
                self.up = ingot.nn.Linear(2, 16)
                self.down = ingot.nn.Linear(16, 1)
                self.gain = ingot.nn.Parameter(np.ones(1))

            def forward(self, x):
                return self.down(self.up(x).tanh()) * self.gain

        return Net()

    def train(self, optimizer_of, mode="dynamic", steps=120, clip=None):
        """The losses of a net that learns the product of two numbers."""
        ingot.init("cpu", seed=2)
        ingot.mode(mode)
        rows = np.random.default_rng(0).standard_normal((64, 2)).astype(np.float32)
        x, y = ingot.tensor(rows), ingot.tensor(rows[:, :1] * rows[:, 1:])
        net, losses = self.net(), []
        optimizer = optimizer_of(net)
        for _ in range(steps):
            loss = ingot.ops.mse(net(x), y)
            loss.backward()
            if clip:
                optimizer.clip_grad_norm(clip)
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
        self.assertEqual(optimizer.steps, steps)
        return net, losses

    def test_adamw_learns_with_equal_losses_in_every_mode(self):
        made = {mode: self.train(lambda net: ingot.optim.AdamW(net.parameters(), lr=1e-2), mode)[1]
                for mode in ("dynamic", "compiled", "auto")}
        self.assertLess(made["dynamic"][-1], 0.1 * made["dynamic"][0])
        self.assertEqual(made["compiled"], made["dynamic"])
        self.assertEqual(made["auto"], made["dynamic"])

    def test_sgd_learns_and_clips(self):
        _, losses = self.train(lambda net: ingot.optim.SGD(net, lr=0.1, momentum=0.9), clip=1.0)
        self.assertLess(losses[-1], 0.5 * losses[0])

    def test_one_step_of_sgd_is_the_formula(self):
        ingot.init("cpu")
        layer = ingot.nn.Linear(3, 2)
        before, x = layer.weight.numpy(), np.ones((4, 3), np.float32)
        optimizer = ingot.optim.SGD(layer.parameters(), lr=0.5)
        layer(ingot.tensor(x)).sum().backward()
        gradient = layer.weight.grad.numpy()
        optimizer.step()
        np.testing.assert_allclose(gradient, np.full((2, 3), 4.0))
        np.testing.assert_allclose(layer.weight.numpy(), before - 0.5 * gradient, atol=TOLERANCE)
        optimizer.lr = 0.25
        self.assertEqual(optimizer.lr, 0.25)

    def test_parameters_have_paths_and_are_saved(self):
        net, _ = self.train(lambda net: ingot.optim.AdamW(net), steps=3)
        self.assertEqual([path for path, _ in net.named_parameters()],
                         ["up.weight", "up.bias", "down.weight", "down.bias", "gain"])
        self.assertEqual(net.size, 2 * 16 + 16 + 16 + 1 + 1)
        self.assertEqual(net.up.weight.name, "up.weight")
        state = net.state_dict()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "net.oam")
            net.save(path)
            other = self.net()
            other.load(path)
            for name, array in other.state_dict().items():
                self.assertTrue(np.array_equal(array, state[name]), name)
            with self.assertRaises(ingot.IngotError):
                ingot.nn.Linear(2, 3).load(path)
        other = self.net()
        other.load_state_dict(state)
        self.assertTrue(np.array_equal(other.down.bias.numpy(), state["down.bias"]))
        del state["gain"]
        with self.assertRaisesRegex(ValueError, "gain"):
            other.load_state_dict(state)

    def test_layers_compute_what_numpy_computes(self):
        ingot.init("cpu")
        x = np.random.default_rng(1).standard_normal((5, 8)).astype(np.float32)
        linear = ingot.nn.Linear(8, 3, bias=False)
        np.testing.assert_allclose(linear(ingot.tensor(x)).numpy(), x @ linear.weight.numpy().T,
                                   atol=TOLERANCE)
        norm = ingot.nn.LayerNorm(8)
        want = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
        np.testing.assert_allclose(norm(ingot.tensor(x)).numpy(), want, atol=TOLERANCE)
        rms = ingot.nn.RMSNorm(8)
        want = x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)
        np.testing.assert_allclose(rms(ingot.tensor(x)).numpy(), want, atol=TOLERANCE)
        table = ingot.nn.Embedding(10, 4)
        np.testing.assert_array_equal(table([3, 1]).numpy(), table.weight.numpy()[[3, 1]])
        dropout = ingot.nn.Dropout(0.5).eval()
        np.testing.assert_array_equal(dropout(ingot.tensor(x)).numpy(), x)
        steps = ingot.nn.Sequential(linear, ingot.Tensor.relu)
        np.testing.assert_array_equal(steps(ingot.tensor(x)).numpy(),
                                      np.maximum(linear(ingot.tensor(x)).numpy(), 0))

    def test_wrong_modules_are_refused(self):
        ingot.init("cpu")
        net = self.net()
        with self.assertRaisesRegex(ValueError, "belongs to a module already"):
            ingot.nn.Sequential(net.up)
        with self.assertRaisesRegex(ValueError, "there is a"):
            net.up = ingot.nn.Linear(1, 1)
        with self.assertRaises(NotImplementedError):
            ingot.nn.Module()(1)
        with self.assertRaisesRegex(ValueError, "expected a module"):
            ingot.optim.SGD([1, 2])

    def test_modules_move_to_another_device(self):
        ingot.init("cpu", seed=3)
        net, x = self.net(), ingot.tensor([[0.5, -1.0]])
        before = net(x).item()
        ingot.switch_device("ref")
        self.assertAlmostEqual(net(x).item(), before, delta=TOLERANCE)
        ingot.shutdown()


if __name__ == "__main__":
    unittest.main()
