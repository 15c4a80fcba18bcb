"""The examples run, and print what their readers are promised."""
import re
import unittest

from support import ROOT, needs_numpy, python

EXAMPLES = ROOT / "examples" / "python"


class Examples(unittest.TestCase):
    def out(self, name, device="cpu"):
        done = python(str(EXAMPLES / name), env={"INGOT_DEVICE": device})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_generate(self):
        out = self.out("generate.py")
        self.assertIn("llm, 847,744 parameters, on cpu:0", out)
        self.assertIn(", a kind boy named Leo lived near the market.", out)

    def test_batch(self):
        out = self.out("batch.py")
        self.assertEqual(len(re.findall(" -> ", out)), 4)
        self.assertRegex(out, r"4 streams, \d+ tokens in all")

    def test_devices(self):
        out = self.out("devices.py")
        self.assertRegex(out, r"(?m)^cpu:0 ")
        self.assertIn("ref:0", out)

    @needs_numpy
    def test_train(self):
        out = self.out("train.py")
        losses = [float(one) for one in re.findall(r"loss ([\d.]+)", out)]
        self.assertEqual(len(losses), 4)
        self.assertLess(losses[-1], 0.01)
        self.assertLess(abs(float(out.split()[-1]) - 0.25), 0.1)

    def test_every_example_has_a_test(self):
        names = {f"test_{path.stem}" for path in EXAMPLES.glob("*.py")}
        self.assertLessEqual(names, set(dir(self)))


if __name__ == "__main__":
    unittest.main()
