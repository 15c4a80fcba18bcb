"""The C API through the table, without the classes above it: what another binding would do."""
import ctypes as c
import unittest

from support import lib

from ingot import ArgumentError, ModelError
from ingot._library import callback, struct, view_of

TEXT = b"a rose is a rose is a rose. "


class TrainingAnArchitecture(unittest.TestCase):
    def setUp(self):
        self.ctx, self.model = c.c_void_p(), c.c_void_p()
        lib.ig_ctx_create(None, c.byref(self.ctx))
        config = struct("ig_model_config")(d_model=32, n_layers=2, n_heads=2, ctx_len=96)
        lib.ig_adapter_create(self.ctx, b"OaLlm", c.byref(config), c.byref(self.model))

    def tearDown(self):
        lib.ig_adapter_destroy(self.model)
        lib.ig_ctx_destroy(self.ctx)

    def test_a_model_learns_and_generates(self):
        self.assertEqual(lib.ig_adapter_architecture(self.model), b"llm")
        batch, rows, losses = 4, 32, []
        options, loss = struct("ig_train_options")(lr=3e-3, clip_norm=1), c.c_double()
        for step in range(60):
            ids = [TEXT[(step + 5 * b + i) % len(TEXT)] for b in range(batch) for i in range(rows + 1)]
            lib.ig_adapter_train(self.model, (c.c_int32 * len(ids))(*ids), batch, rows,
                                 c.byref(options), c.byref(loss))
            losses.append(loss.value)
        self.assertLess(losses[-1], 0.5 * losses[0])

        said = bytearray()

        def receive(user, text, n_bytes):
            said.extend(c.string_at(text, n_bytes))
            return True

        asked = struct("ig_generate_options")(
            prompt=b"a rose", prompt_bytes=6, max_tokens=24,
            emit=callback("ig_generate_options", "emit")(receive))
        asked.sampling.temperature = -1
        made = struct("ig_generated")()
        lib.ig_adapter_generate(self.model, c.byref(asked), c.byref(made))
        self.assertEqual((made.n_generated, len(said)), (24, 24))

    def test_a_failure_has_its_status_and_words(self):
        with self.assertRaisesRegex(ModelError, "unknown architecture parrot"):
            lib.ig_adapter_create(self.ctx, b"parrot", None, c.byref(c.c_void_p()))
        sampling = struct("ig_sampling")(mirostat=7)
        with self.assertRaisesRegex(ArgumentError, "mirostat"):
            lib.ig_sampling_check(c.byref(sampling), 100)


class Templates(unittest.TestCase):
    def test_a_template_has_tools_and_variables(self):
        chat, text = c.c_void_p(), struct("ig_string")()
        jinja = b"{{ tools[0].name }}:{% for m in messages %}{{ m.content }};{% endfor %}{{ mood }}"
        lib.ig_chat_template_parse(jinja, len(jinja), None, c.byref(chat))
        message = struct("ig_chat_message")
        messages = (message * 2)(message(b"system", b"Be brief.", 9), message(b"user", b"Hi", 2))
        options = struct("ig_chat_options")(tools=b'[{"name": "sky"}]', variables=b'{"mood": "!"}')
        lib.ig_chat_render(chat, None, messages, 2, c.byref(options), c.byref(text))
        self.assertEqual(view_of(text), b"sky:Be brief.;Hi;!")
        lib.ig_string_deinit(c.byref(text))
        options.tools = b"{"
        with self.assertRaisesRegex(ArgumentError, "tools is not JSON"):
            lib.ig_chat_render(chat, None, messages, 2, c.byref(options), c.byref(text))
        lib.ig_chat_template_destroy(chat)


if __name__ == "__main__":
    unittest.main()
