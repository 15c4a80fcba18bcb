"""Model and Session: text in, text out; errors, threads, Ctrl-C, fork."""
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

from support import ROOT, STORIES, WAIT_S, ingot, needs_numpy, program, synthetic

PROMPT = "Once upon a time"


class Generating(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model = ingot.Model(STORIES, device="cpu")

    @classmethod
    def tearDownClass(cls):
        cls.model.close()

    def test_it_says_what_it_is(self):
        self.assertEqual(self.model.architecture, "llm")
        self.assertEqual(self.model.device, "cpu:0")
        self.assertGreater(self.model.parameters, 100000)
        self.assertEqual(self.model.vocab_size, self.model.tokenizer.vocab_size)

    def test_greedy_text_is_that_of_the_program(self):
        text = self.model.generate(PROMPT, max_tokens=12, temperature=0)
        self.assertEqual(text, ", a kind boy named Leo lived near the market. One")

    def test_a_seed_repeats_a_text_and_another_one_does_not(self):
        made = [self.model.generate(PROMPT, 24, 1.0, seed=seed) for seed in (7, 7, 8)]
        self.assertEqual(made[0], made[1])
        self.assertNotEqual(made[0], made[2])

    def test_a_stream_is_the_text_in_pieces(self):
        whole = self.model.generate(PROMPT, 12, 0)
        pieces = list(self.model.stream(PROMPT, 12, 0))
        self.assertGreater(len(pieces), 5)
        self.assertEqual("".join(pieces), whole)

    def test_a_stream_that_is_closed_leaves_the_model_usable(self):
        stream = self.model.stream(PROMPT, temperature=0)
        first = next(stream)
        stream.close()
        self.assertTrue(self.model.generate(PROMPT, 4, 0).startswith(first))

    def test_a_stop_string_ends_the_text(self):
        self.assertEqual(self.model.generate(PROMPT, 40, 0, stop=" named"), ", a kind boy")

    def test_tokens_are_a_prompt_too(self):
        ids = self.model.tokenizer.encode_prompt(PROMPT)
        self.assertEqual(self.model.generate(ids, 8, 0), self.model.generate(PROMPT, 8, 0))

    def test_text_survives_tokenizing(self):
        self.assertEqual(self.model.detokenize(self.model.tokenize("the old man")), "the old man")

    def test_a_chat_uses_the_template(self):
        model = self.model
        with self.assertRaisesRegex(ingot.FormatError, "no chat template"):
            model.chat([{"role": "user", "content": "Hi"}])
        template = ingot.ChatTemplate(text="{% for m in messages %}{{ m.content }}{% endfor %}")
        self.assertEqual(template.render(model.tokenizer, [{"role": "user", "content": "Once"}]), "Once")
        model.chat_template = template
        asked = [{"role": "user", "content": PROMPT}]
        self.assertEqual(model.chat(asked, 8, 0), model.generate(PROMPT, 8, 0))
        with self.assertRaisesRegex(ValueError, "has no role"):
            model.chat([{"content": "Hi"}])

    def test_threads_share_a_model(self):
        want, made = self.model.generate(PROMPT, 16, 0), []

        def work():
            made.append(self.model.generate(PROMPT, 16, 0))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(made, [want] * 4)

    def test_switching_devices_keeps_the_text(self):
        with ingot.Model(STORIES, device="cpu") as model:
            before = model.generate(PROMPT, 6, 0)
            model.switch_device("ref")
            self.assertEqual(model.device, "ref:0")
            self.assertEqual(model.generate(PROMPT, 6, 0), before)


class Refusing(unittest.TestCase):
    def test_errors_have_status_where_and_why(self):
        with self.assertRaises(ingot.FileError) as caught:
            ingot.Model("/none/model.gguf")
        problem = caught.exception
        self.assertIsInstance(problem, OSError)
        self.assertIn("/none/model.gguf", problem.why)
        self.assertRegex(problem.where, r"\w+\.c:\d+")
        self.assertNotIn(problem.where, str(problem))
        again = pickle.loads(pickle.dumps(problem))
        self.assertEqual((type(again), again.status, again.why),
                         (type(problem), problem.status, problem.why))

    def test_a_damaged_file_is_a_format_error(self):
        with tempfile.NamedTemporaryFile(suffix=".gguf") as file:
            file.write(b"GGUF" + b"\xff" * 100)
            file.flush()
            with self.assertRaises(ingot.FormatError):
                ingot.Model(file.name)

    def test_options_out_of_range_are_value_errors(self):
        with ingot.Model(STORIES, device="cpu") as model:
            for options in ({"temperature": -1}, {"top_p": 2}, {"max_tokens": 0}, {"min_p": 3}):
                with self.assertRaises(ValueError, msg=options):
                    model.generate(PROMPT, **options)
            with self.assertRaisesRegex(ValueError, "id -1"):
                model.generate([-1])
            with self.assertRaises(ingot.ArgumentError):
                model.generate([10 ** 6])
            with self.assertRaises(ingot.UnsupportedError):
                model.generate(PROMPT, n=2)
            with self.assertRaises(TypeError):
                model.generate(PROMPT, parrots=1)

    def test_a_closed_model_is_a_state_error(self):
        model = ingot.Model(STORIES, device="cpu")
        model.generate(PROMPT, 1)
        model.close()
        model.close()
        with self.assertRaisesRegex(ingot.StateError, "closed"):
            model.generate(PROMPT, 1)

    def test_an_unknown_device_is_a_device_error(self):
        with self.assertRaisesRegex(ingot.DeviceError, "parrot"):
            ingot.Model(STORIES, device="parrot")


class Interrupting(unittest.TestCase):
    def test_control_c_ends_a_generation_and_the_model_goes_on(self):
        code = ("import sys, ingot\n"
                f"model = ingot.Model({synthetic('llama')!r}, device='cpu')\n"
                "print('begin', flush=True)\n"
                "try:\n"
                "    while True: model.generate([1, 2, 3], temperature=1.0, ignore_eos=True)\n"
                "except KeyboardInterrupt: print('interrupted', flush=True)\n"
                "print(len(model.generate([1, 2], 4, ignore_eos=True)) >= 0)\n")
        self.interrupt(code)

    def test_control_c_ends_the_prompts_of_an_engine(self):
        code = ("import sys, ingot\n"
                f"llm = ingot.LLM({STORIES!r}, device='cpu')\n"
                "many = ingot.SamplingParams(max_tokens=150, ignore_eos=True)\n"
                "print('begin', flush=True)\n"
                "try:\n"
                "    while True: llm.generate(['Once'] * 100, many)\n"
                "except KeyboardInterrupt: print('interrupted', flush=True)\n"
                "print(len(llm.generate('Once', ingot.SamplingParams(max_tokens=2))) == 1)\n")
        self.interrupt(code)

    def interrupt(self, code):
        env = {**os.environ, "PYTHONPATH": str(ROOT / "python")}
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, env=env) as child:
            self.assertEqual(child.stdout.readline(), "begin\n")
            threading.Event().wait(0.3)
            child.send_signal(signal.SIGINT)
            out, err = child.communicate(timeout=WAIT_S)
        self.assertEqual(out.split(), ["interrupted", "True"], err)
        self.assertEqual(child.returncode, 0, err)


class Forking(unittest.TestCase):
    def test_a_child_process_refuses_what_its_parent_opened_and_opens_its_own(self):
        code = ("import os, ingot\n"
                f"model = ingot.Model({STORIES!r}, device='cpu')\n"
                f"llm = ingot.LLM({STORIES!r}, device='cpu')\n"
                "want = model.generate('Once', 4, 0)\n"
                "if os.fork() == 0:\n"
                "    for use in (lambda: model.generate('Once', 4, 0), lambda: llm.generate('Once')):\n"
                "        try: use()\n"
                "        except ingot.StateError as problem: assert 'forked' in str(problem)\n"
                "        else: raise SystemExit(3)\n"
                f"    own = ingot.Model({STORIES!r}, device='cpu')\n"
                "    raise SystemExit(own.generate('Once', 4, 0) != want)\n"
                "assert os.waitstatus_to_exitcode(os.wait()[1]) == 0\n"
                "assert model.generate('Once', 4, 0) == want\n")
        program(code)

    def test_a_child_of_a_busy_process_does_not_wait_for_its_locks(self):
        code = ("import os, threading, ingot\n"
                f"model = ingot.Model({STORIES!r}, device='cpu')\n"
                "stream = model.stream('Once', ignore_eos=True)\n"
                "next(stream)\n"
                "if os.fork() == 0:\n"
                "    try: model.generate('Once', 4, 0)\n"
                "    except ingot.StateError: raise SystemExit(0)\n"
                "    raise SystemExit(3)\n"
                "assert os.waitstatus_to_exitcode(os.wait()[1]) == 0\n"
                "stream.close()\n")
        program(code)


@needs_numpy
class Arrays(unittest.TestCase):
    def test_a_text_in_pieces_gives_the_logits_of_the_whole(self):
        import numpy as np
        with ingot.Model(synthetic("llama"), device="cpu") as model:
            ids = [1, 5, 9, 20, 31]
            rows = model.logits(ids)
            self.assertEqual(rows.shape, (5, model.vocab_size))
            with model.session(sequences=2, ctx_len=64) as session:
                last = [session.feed([one]) for one in ids]
                self.assertTrue(np.array_equal(np.stack(last), rows))
                self.assertEqual((session.length, session.tokens()), (5, ids))
                session.fork(0, 1)
                session.truncate(4)
                self.assertTrue(np.array_equal(session.feed([31]), rows[-1]))
                self.assertTrue(np.array_equal(session.feed([7], 1), session.feed([7], 0)))

    def test_a_sequence_is_saved_and_loaded(self):
        import numpy as np
        with ingot.Model(synthetic("llama"), device="cpu") as model, \
                tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "sequence")
            with model.session(sequences=2, ctx_len=64) as session:
                session.feed([1, 2, 3])
                session.save(path)
                session.load(path, 1)
                self.assertTrue(np.array_equal(session.feed([4], 0), session.feed([4], 1)))

    def test_errors_of_a_session_are_exceptions(self):
        with ingot.Model(synthetic("llama"), device="cpu") as model, \
                model.session(ctx_len=64) as session:
            with self.assertRaises(ingot.ArgumentError):
                session.feed([1], sequence=5)
            with self.assertRaises(ingot.IngotError):
                session.feed([1] * 100)
            self.assertEqual(session.length, 0)

    def test_embeddings_are_unit_vectors_and_those_of_the_engine(self):
        import numpy as np
        texts = ["the cat", "a dog"]
        with ingot.Model(synthetic("bert"), device="cpu") as model:
            rows = model.embed(texts)
            self.assertEqual(rows.shape, (2, model.width))
            self.assertTrue(np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5))
            self.assertTrue(np.array_equal(model.embed(texts[1]), rows[1]))
            with self.assertRaisesRegex(ValueError, "pooling"):
                model.embed("x", pooling="parrot")
        with ingot.LLM(synthetic("llama"), device="cpu") as llm, \
                ingot.Model(synthetic("llama"), device="cpu") as model:
            outputs = llm.embed(texts, pooling="mean")
            self.assertTrue(np.allclose(np.stack([one.embedding for one in outputs]),
                                        model.embed(texts, pooling="mean"), atol=1e-6))
            self.assertTrue(np.allclose(llm.score(texts[0], texts)[0], 1, atol=1e-5))


if __name__ == "__main__":
    unittest.main()
