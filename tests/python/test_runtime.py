"""init(), switch_device(), the report, and `python -m ingot`."""
import contextlib
import io
import json
import os
import re
import tempfile
import unittest

from support import STORIES, ingot, program, python


class Configuring(unittest.TestCase):
    def test_the_argument_beats_the_variables(self):
        code = "import ingot; print(ingot.init(%s).device)"
        self.assertEqual(program(code % "", env={"INGOT_DEVICE": "ref"}), "ref:0\n")
        self.assertEqual(program(code % "", env={"RM_DEVICE": "ref"}), "ref:0\n")
        self.assertEqual(program(code % "'cpu'", env={"INGOT_DEVICE": "ref"}), "cpu:0\n")
        both = {"INGOT_DEVICE": "cpu", "RM_DEVICE": "ref"}
        self.assertEqual(program(code % "", env=both), "cpu:0\n")

    def test_devices_are_listed_with_reasons(self):
        rows = {one.name: one for one in ingot.devices()}
        self.assertTrue(rows["cpu:0"].available)
        self.assertTrue(all(one.available or one.reason for one in rows.values()))

    def test_wrong_options_are_refused(self):
        for options in ({"inference_engine": "parrot"}, {"hooks": ["parrot"]},
                        {"engine_options": {"parrot": 1}}, {"compile_options": {"parrot": 1}},
                        {"engine_options": {"gpu_memory_utilization": 0}}):
            with self.assertRaises(ValueError, msg=options):
                ingot.init("cpu", **options)
        with self.assertRaises(ingot.DeviceError):
            ingot.init("parrot")

    def test_what_is_not_there_yet_says_so(self):
        with self.assertRaisesRegex(NotImplementedError, "transformers"):
            ingot.init("cpu", hooks=["transformers"])
        with self.assertRaisesRegex(NotImplementedError, "PyTorch"):
            ingot.prepare(object())
        self.assertEqual(ingot.patches(), [])
        ingot.unhook()
        with ingot.disable():
            pass

    def test_every_open_model_moves_to_another_device_or_none_does(self):
        ingot.init("cpu")
        with ingot.Model(STORIES) as model, ingot.LLM(STORIES) as llm:
            ingot.switch_device("ref")
            self.assertEqual((model.device, llm.device), ("ref:0", "ref:0"))
            with self.assertRaises(ingot.DeviceError):
                ingot.switch_device("parrot")
            self.assertEqual((model.device, llm.device), ("ref:0", "ref:0"))
        ingot.shutdown()


class Reporting(unittest.TestCase):
    def test_a_report_has_what_ran(self):
        ingot.init("cpu")
        with ingot.Model(STORIES) as model:
            model.generate("Once", 4)
            report = ingot.report()
            self.assertEqual([one["name"] for one in report["parts"]], ["tensors", STORIES])
            self.assertEqual({one["device"] for one in report["backend_timeline"]}, {"cpu:0"})
            self.assertEqual({(one["flow"], one["backend"]) for one in report["parts"]},
                             {("cpu direct", "cpu:0")})
            model.switch_device("simnpu")
            self.assertEqual(model.report()["flow"], "npu compile")
            for one in report["backend_timeline"]:
                self.assertEqual(len(one["attempts"]), 3)
            json.dumps(report)
        ingot.shutdown()

    def test_only_explain_writes_to_stdout(self):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            ingot.init("cpu")
            with ingot.Model(STORIES) as model:
                model.generate("Once", 4)
                ingot.report()
                self.assertEqual(out.getvalue(), "")
                text = ingot.explain()
        self.assertEqual(out.getvalue(), text + "\n")
        self.assertIn(STORIES, text)
        self.assertIn("cpu:0", text)
        ingot.shutdown()

    def test_the_report_is_written_at_exit_after_an_exception_too(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "report.json")
            done = python("-c", f"import ingot; ingot.Model({STORIES!r}).generate('Once', 2); 1 / 0",
                          env={"INGOT_REPORT": path, "INGOT_DEVICE": "cpu"})
            self.assertEqual(done.returncode, 1)
            self.assertIn("ZeroDivisionError", done.stderr)
            with open(path) as file:
                self.assertTrue(json.load(file)["versions"]["library"])


class Compiling(unittest.TestCase):
    """A device that compiles shows a bar the first time, and the cache the second."""

    CODE = ("import rm_abstract\n"
            "rm_abstract.init(device='npu:0', compile_options={'batch_size': [1, 8]})\n"
            f"model = rm_abstract.Model({STORIES!r})\n"
            "print(model.device, model.generate('Once upon a time', 4, 0))\n"
            "rm_abstract.switch_device('cpu')\n"
            "print(model.device, model.generate('Once upon a time', 4, 0))\n")

    def test_the_other_name_compiles_once_and_switches(self):
        with tempfile.TemporaryDirectory() as folder:
            env = {"RM_CACHE_DIR": folder, "INGOT_CACHE_DIR": ""}
            runs = [python("-c", self.CODE, env=env) for _ in range(2)]
        for done in runs:
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(done.stdout, "simnpu:0 , a kind boy\ncpu:0 , a kind boy\n")
            self.assertIn("rm_abstract: ingot", done.stderr)
        percents = [int(one) for one in re.findall(r"(\d+)%", runs[0].stderr)]
        self.assertEqual(percents[-1], 100)
        self.assertIn("Compiling [", runs[0].stderr)
        self.assertNotIn("from the cache", runs[0].stderr)
        self.assertNotIn("Compiling [", runs[1].stderr)
        self.assertIn("from the cache", runs[1].stderr)


class Running(unittest.TestCase):
    """`python -m ingot` runs a program as python does."""

    SCRIPT = ("import sys, ingot\n"
              "print(__name__, sys.argv[1:], sys.path[0] == sys.argv[2], ingot.init().device)\n"
              "sys.exit(int(sys.argv[1]))\n")

    def test_a_script_has_its_arguments_and_exit_status(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "script.py")
            with open(path, "w") as file:
                file.write(self.SCRIPT)
            done = python("-m", "ingot", "--device", "ref", path, "7", folder)
            self.assertEqual(done.returncode, 7, done.stderr)
            self.assertEqual(done.stdout, f"__main__ {['7', folder]} True ref:0\n")

    def test_code_and_modules_run_too(self):
        done = python("-m", "ingot", "--device=ref", "-c", "import ingot; print(ingot.init().device)")
        self.assertEqual(done.stdout, "ref:0\n", done.stderr)
        done = python("-m", "ingot", "-m", "json.tool", "--help")
        self.assertIn("usage", done.stdout)

    def test_a_traceback_names_the_script(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "script.py")
            with open(path, "w") as file:
                file.write("def fail():\n    raise LookupError('lost')\nfail()\n")
            done = python("-m", "ingot", path)
            self.assertEqual(done.returncode, 1)
            self.assertIn(f'File "{path}", line 2, in fail', done.stderr)
            self.assertIn("LookupError: lost", done.stderr)

    def test_wrong_use_exits_with_2(self):
        for words in ([], ["--parrot"], ["-m"], ["/none/script.py"], ["--device"]):
            done = python("-m", "ingot", *words)
            self.assertEqual(done.returncode, 2, words)
            self.assertIn("usage: python -m ingot", done.stderr)


if __name__ == "__main__":
    unittest.main()
