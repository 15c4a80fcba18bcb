"""Lists devices, moves a model between two of them, and shows what ran where."""
import pathlib

import ingot

STORIES = pathlib.Path(__file__).resolve().parents[2] / "models" / "stories.oam"

for device in ingot.devices():
    print(f"{device.name:10}  {device.description if device.available else device.reason}")

ingot.init(device="cpu")
model = ingot.Model(STORIES)
before = model.generate("Once upon a time", max_tokens=8, temperature=0)
ingot.switch_device("ref")
assert model.generate("Once upon a time", max_tokens=8, temperature=0) == before
ingot.explain()
