"""Generates text with a model file: python examples/python/generate.py [MODEL]"""
import pathlib
import sys

import ingot

STORIES = pathlib.Path(__file__).resolve().parents[2] / "models" / "stories.oam"

model = ingot.Model(sys.argv[1] if len(sys.argv) > 1 else STORIES)
print(f"{model.architecture}, {model.parameters:,} parameters, on {model.device}")

# A whole text, then piece by piece.
print(model.generate("Once upon a time", max_tokens=20, temperature=0))
for piece in model.stream("The dog", max_tokens=20, temperature=0.7, seed=1):
    print(piece, end="", flush=True)
print()
