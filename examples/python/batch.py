"""Many prompts at once with continuous batching: python examples/python/batch.py [MODEL]"""
import pathlib
import sys

import ingot

STORIES = pathlib.Path(__file__).resolve().parents[2] / "models" / "stories.oam"

llm = ingot.LLM(sys.argv[1] if len(sys.argv) > 1 else STORIES)
prompts = ["Once upon a time", "The dog", "A girl named", "One day"]
params = ingot.SamplingParams(temperature=0.7, max_tokens=24, seed=1)

for output in llm.generate(prompts, params):
    print(f"{output.prompt!r} -> {output.outputs[0].text!r}")

# The same side by side, as text is generated.
texts = dict.fromkeys(range(len(prompts)), "")
for prompt, reply, text in llm.stream(prompts, params):
    texts[prompt] += text
print(len(texts), "streams,", llm.stats()["n_generated"], "tokens in all")
