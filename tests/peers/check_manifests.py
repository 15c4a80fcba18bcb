#!/usr/bin/env python3
"""check_manifests.py SOURCE: the Kubernetes manifests and the systemd units of packaging/ are valid.

Manifests go through the schemas of kubernetes-validate, unknown fields included; units through
`systemd-analyze verify`.  What files say about each other must agree: ports, probes,
users and grace periods.

Run with the interpreter of tests/peers/venv manifests; tools/test --e2e does.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import kubernetes_validate
import yaml

SOURCE = pathlib.Path(sys.argv[1])
VERSION = "1.37"


def manifests():
    for file in sorted((SOURCE / "packaging/kubernetes").glob("*.yaml")):
        for document in yaml.safe_load_all(file.read_text()):
            yield file, document


def check_schema():
    count = 0
    for file, document in manifests():
        kubernetes_validate.validate(document, VERSION, strict=True)
        print(f"ok: {file.name}: {document['kind']} {document['metadata']['name']}")
        count += 1
    assert count >= 3, "no manifests"
    broken = next(document for _, document in manifests() if document["kind"] == "Deployment")
    broken["spec"]["template"]["spec"]["containers"][0]["livenessPrope"] = {}
    try:
        kubernetes_validate.validate(broken, VERSION, strict=True)
    except kubernetes_validate.ValidationError:
        return
    sys.exit("kubernetes-validate accepts a misspelled field")


def check_agreement():
    image = (SOURCE / "Containerfile").read_text()
    port = int(re.search(r"^EXPOSE (\d+)", image, re.M)[1])
    user = int(re.search(r"^USER (\d+)", image, re.M)[1])
    for file, document in manifests():
        if document["kind"] != "Deployment": continue
        pod = document["spec"]["template"]["spec"]
        container = pod["containers"][0]
        assert container["ports"][0]["containerPort"] == port, file
        assert pod["securityContext"]["runAsUser"] == user, file
        assert f"--port={port}" in container["args"], file
        assert pod["terminationGracePeriodSeconds"] > 35, "--drain-delay 5 and --drain 30 must fit"
        paths = {probe: container[probe]["httpGet"]["path"] for probe in container if probe.endswith("Probe")}
        assert paths == {"startupProbe": "/health", "livenessProbe": "/health", "readinessProbe": "/ready"}, paths
    print("ok: Containerfile and manifests agree")


def check_units():
    analyze = shutil.which("systemd-analyze")
    if not analyze: sys.exit("systemd-analyze is missing: tools/setup peers installs it")
    with tempfile.TemporaryDirectory() as folder:
        units = []
        for unit in sorted((SOURCE / "packaging/systemd").iterdir()):
            units.append(pathlib.Path(folder, unit.name))
            units[-1].write_text(unit.read_text().replace("/usr/bin/ingot", "/bin/true"))  # it must exist
        done = subprocess.run([analyze, "verify", "--man=no", *units], capture_output=True, text=True, timeout=60)
        names = "|".join(re.escape(unit.name) for unit in units)
        errors = [line for line in done.stderr.splitlines() if re.search(names, line)]
        assert len(units) == 2 and done.returncode == 0 and not errors, done.stderr
        print("ok: " + " ".join(unit.name for unit in units))


check_schema()
check_agreement()
check_units()
