"""LLM: many prompts, each with the text that it has alone."""
import math
import threading
import unittest

from support import STORIES, ingot, synthetic

PROMPTS = ["Once upon a time", "The dog", "A girl named", "One day"]
GREEDY = ingot.SamplingParams(temperature=0, max_tokens=12)


class Batching(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.llm = ingot.LLM(STORIES, device="cpu")
        with ingot.Model(STORIES, device="cpu") as model:
            cls.alone = [model.generate(prompt, 12, 0) for prompt in PROMPTS]

    @classmethod
    def tearDownClass(cls):
        cls.llm.close()

    def test_outputs_are_in_order_and_as_if_alone(self):
        outputs = self.llm.generate(PROMPTS, GREEDY)
        self.assertEqual([one.prompt for one in outputs], PROMPTS)
        self.assertEqual([one.outputs[0].text for one in outputs], self.alone)
        for one in outputs:
            self.assertTrue(one.finished)
            self.assertEqual(one.outputs[0].finish_reason, "length")
            self.assertEqual(self.llm.tokenizer.decode(one.outputs[0].token_ids), one.outputs[0].text)

    def test_more_prompts_than_the_queue_holds_all_have_outputs(self):
        outputs = self.llm.generate(PROMPTS * 60, ingot.SamplingParams(temperature=0, max_tokens=3))
        self.assertEqual(len(outputs), 240)
        self.assertEqual(len({one.outputs[0].text for one in outputs[1::4]}), 1)

    def test_a_stream_adds_up_to_the_outputs(self):
        texts = [""] * len(PROMPTS)
        for place, choice, text in self.llm.stream(PROMPTS, GREEDY):
            self.assertEqual(choice, 0)
            texts[place] += text
        self.assertEqual(texts, self.alone)

    def test_a_closed_stream_cancels_its_requests(self):
        for _ in self.llm.stream(PROMPTS, ingot.SamplingParams(max_tokens=150, ignore_eos=True)):
            break
        self.assertEqual(self.llm.generate(PROMPTS[0], GREEDY)[0].outputs[0].text, self.alone[0])

    def test_the_defaults_are_temperature_07_and_256_tokens(self):
        params = ingot.SamplingParams()
        self.assertEqual((params.temperature, params.max_tokens), (0.7, 256))

    def test_several_replies_differ_and_a_seed_repeats_them(self):
        params = ingot.SamplingParams(n=3, temperature=1.0, seed=5, max_tokens=10)
        first, second = self.llm.generate([PROMPTS[0]] * 2, params)
        texts = [one.text for one in first.outputs]
        self.assertEqual(len(set(texts)), 3)
        self.assertEqual(texts, [one.text for one in second.outputs])

    def test_logprobs_are_of_the_tokens(self):
        params = ingot.SamplingParams(temperature=0, max_tokens=4, logprobs=3, prompt_logprobs=True)
        output = self.llm.generate(PROMPTS[0], params)[0]
        reply = output.outputs[0]
        self.assertEqual(len(reply.logprobs), 4)
        total = 0.0
        for token, rows in zip(reply.token_ids, reply.logprobs):
            self.assertEqual(rows[token].rank, 1)
            self.assertEqual(len(rows), 3)
            total += rows[token].logprob
        self.assertAlmostEqual(total, reply.cumulative_logprob)
        self.assertEqual(len(output.prompt_logprobs), len(output.prompt_token_ids))
        self.assertIsNone(output.prompt_logprobs[0])
        self.assertTrue(all(math.isfinite(one) and one <= 0 for one in output.prompt_logprobs[1:]))

    def test_a_stop_string_is_the_reason(self):
        params = ingot.SamplingParams(temperature=0, max_tokens=40, stop=[" named"])
        reply = self.llm.generate(PROMPTS[0], params)[0].outputs[0]
        self.assertEqual((reply.text, reply.finish_reason, reply.stop_reason),
                         (", a kind boy", "stop", " named"))

    def test_a_bias_bans_a_token(self):
        first = self.llm.generate(PROMPTS[0], GREEDY)[0].outputs[0].token_ids[0]
        banned = ingot.SamplingParams(temperature=0, max_tokens=1, logit_bias={first: -math.inf})
        self.assertNotEqual(self.llm.generate(PROMPTS[0], banned)[0].outputs[0].token_ids[0], first)

    def test_threads_share_the_engine(self):
        made = {}

        def work(i):
            made[i] = self.llm.generate(PROMPTS[i], GREEDY)[0].outputs[0].text

        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([made[i] for i in range(4)], self.alone)

    def test_a_chat_is_rendered_by_the_template(self):
        self.llm.chat_template = "{% for m in messages %}{{ m.content }}{% endfor %}"
        outputs = self.llm.chat([{"role": "user", "content": PROMPTS[1]}], GREEDY)
        self.assertEqual(outputs[0].outputs[0].text, self.alone[1])

    def test_the_report_is_of_this_model(self):
        self.llm.generate(PROMPTS, GREEDY)
        self.assertTrue(self.llm.report()["backend_timeline"])
        self.assertGreater(self.llm.stats()["n_generated"], 0)


class Refusing(unittest.TestCase):
    def test_what_has_no_effect_is_refused_in_words(self):
        for options, text in (({"tensor_parallel_size": 2}, "tensor_parallel_size 2"),
                              ({"dtype": "float16"}, "dtype 'float16'"),
                              ({"gpu_memory_utilization": 2}, "gpu_memory_utilization 2"),
                              ({"tokenizer": "another"}, "tokenizer 'another'")):
            with self.assertRaisesRegex((ingot.UnsupportedError, ValueError), text):
                ingot.LLM(STORIES, device="cpu", **options)

    def test_a_prompt_without_room_is_refused_and_the_engine_runs_on(self):
        with ingot.LLM(synthetic("llama"), device="cpu", max_model_len=64) as llm:
            self.assertEqual(llm.max_model_len, 64)
            with self.assertRaisesRegex(ingot.ArgumentError, "context is 64"):
                llm.generate([[1] * 100])
            self.assertEqual(len(llm.generate([[1, 2, 3]], GREEDY)), 1)

    def test_the_share_of_a_gpu_is_a_limit(self):
        if not any(one.available and one.name == "vulkan:0" for one in ingot.devices()):
            self.skipTest("no Vulkan device")
        with self.assertRaisesRegex(MemoryError, "exceeds the limit"):
            ingot.LLM(STORIES, device="vulkan", gpu_memory_utilization=1e-7)

    def test_lists_of_unequal_length_are_refused(self):
        with ingot.LLM(STORIES, device="cpu") as llm, self.assertRaises(ValueError):
            llm.generate(PROMPTS, [GREEDY])

    def test_a_closed_engine_is_a_state_error(self):
        llm = ingot.LLM(STORIES, device="cpu")
        llm.close()
        with self.assertRaises(ingot.StateError):
            llm.generate("Once")


if __name__ == "__main__":
    unittest.main()
