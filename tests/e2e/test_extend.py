#!/usr/bin/env python3
"""An extension is cheap: adds one of each kind to a copy of the tree and counts the files it touches.

    test_extend.py SOURCE BUILD CMAKE

New files come from tests/e2e/extend/<kind>; EDITS are the changes to files that exist.  The copy is
built, and the conformance cases and the gradients of the new ops run on ref, on cpu with every
instruction set, and on vulkan.
"""
import os
import pathlib
import shutil
import subprocess
import sys

SOURCE, BUILD = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
CMAKE = sys.argv[3]
COPY, OUT = BUILD / "tree", BUILD / "build"
NEW = SOURCE / "tests/e2e/extend"
ISAS = ["scalar", "avx2", "avx512", "avx512vnni", "amx"]

# kind: (files that it may touch, edits): a line goes before the first line that begins with the text.
LIMITS = {"family": 2, "elementwise": 7, "backend": 1, "arch": 2, "command": 1, "plugin": 0}
EDITS = {
    "family": [
        ("include/ingot/op.def", "IG_OP(ADD,", "IG_ATTRS(reverse, REVERSE, 4, float by;)\n"),
        ("include/ingot/op.def", "#undef IG_ATTRS",
         "IG_OP(REVERSE, reverse, 1,1, 1,1, REVERSE, reverse, reverse, OWN, 0)\n"),
        ("include/ingot/ops.h", "IG_API ig_tensor *ig_gelu(",
         "/* Each row backwards, times `by`. */\nIG_API ig_tensor *ig_reverse(ig_tensor *x, float by);\n"),
    ],
    "elementwise": [
        ("include/ingot/op.def", "#undef IG_ATTRS",
         "IG_OP(SOFTSIGN, softsign, 1,1, 1,1, NONE, real, softsign, UNARY, IG_ELEMENTWISE)\n"),
        ("include/ingot/function.def", "#undef IG_FN1",
         "IG_FN1(SOFTSIGN, softsign, costly, -10, 10, 4)\n"),
        ("include/ingot/ops.h", "IG_API ig_tensor *ig_gelu(",
         "IG_API ig_tensor *ig_softsign(ig_tensor *x); /* x / (1 + |x|) */\n"),
        ("src/graph/grad/grad_elementwise.c", "void ig_grad_softplus(",
         "/* dx = dy (1 - |y|)^2 */\n"
         "void ig_grad_softsign(const ig_grad *r) {\n"
         "    const ig_value up = ig_build_unary(r->g, IG_OP_POSITIVE, r->in[0]);\n"
         "    const ig_value size = mul(r->g, r->out[0], scale(r->g, up, 2, -1));\n"
         "    const ig_value rest = scale(r->g, size, -1, 1);\n"
         "    r->din[0] = mul(r->g, r->dout[0], mul(r->g, rest, rest));\n"
         "}\n\n"),
        ("src/backend/ref/kernels/elementwise.c", "static double positive_of(",
         "static double softsign_of(double x) { return x / (1 + fabs(x)); }\n"),
        ("src/backend/cpu/simd/vec_math.h", "IG_INLINE float float_log(",
         "IG_INLINE vf softsign_of(vf x) { return vf_div(x, vf_add(vf_set(1), vf_abs(x))); }\n\n"),
        ("src/backend/vulkan/shaders/functions.glsl", "float sigmoid_of(",
         "float softsign_of(float x) { return quotient(x, 1 + abs(x)); }\n\n"),
    ],
    "backend": [("src/backend/backends.def", "#undef IG_BACKEND", "IG_BACKEND(scratch)\n")],
    "arch": [
        ("src/model/arch/arch.def", "#undef IG_ARCH", "IG_ARCH(scratchlm)\n"),
        ("src/model/synthetic/synthetic_models.c", '    {"mixtral", ',
         '    {"scratchlm", "scratchlm", "qwen2", 2, 64, KV_HEADS, 1000000, true,\n'
         "     SEPARATE | QK_NORM | GATED | PRE_NORM | KEY_LENGTH},\n"),
    ],
    "command": [("src/cli/commands.def", "#undef IG_COMMAND", "IG_COMMAND(scratch)\n")],
    "plugin": [],
}


def copy_tree():
    """The files that git tracks, or all but builds where there is no git."""
    listed = subprocess.run(["git", "-C", SOURCE, "ls-files", "-z"], capture_output=True, text=True)
    names = [n for n in listed.stdout.split("\0") if n]
    if listed.returncode != 0 or not names:
        names = [str(p.relative_to(SOURCE)) for p in SOURCE.rglob("*")
                 if p.is_file() and p.relative_to(SOURCE).parts[0] not in ("build", ".git")]
    for name in names:
        if not (SOURCE / name).is_file():
            continue
        (COPY / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(SOURCE / name, COPY / name)
    return names


def contents(names):
    return {n: (COPY / n).read_bytes() for n in names if (COPY / n).is_file()}


def insert(path, before, text):
    lines = (COPY / path).read_text().splitlines(keepends=True)
    for i, line in enumerate(lines):
        if line.startswith(before):
            lines.insert(i, text)
            (COPY / path).write_text("".join(lines))
            return
    sys.exit(f"{path}: no line begins with {before!r}")


def add(kind, names):
    """Adds an extension; how many of the files that were there it touches."""
    before = contents(names)
    for path, anchor, text in EDITS[kind]:
        insert(path, anchor, text)
    if (NEW / kind).is_dir():
        for file in (p for p in (NEW / kind).rglob("*") if p.is_file()):
            to = COPY / file.relative_to(NEW / kind)
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, to)
    if kind == "backend":
        add_backend()
    after = contents(names)
    touched = sorted(n for n in before if before[n] != after.get(n))
    print(f"{kind}: touches {len(touched)} of at most {LIMITS[kind]}: {' '.join(touched)}")
    return len(touched)


def add_backend():
    """The example of a plugin, built in."""
    text = (SOURCE / "examples/backend_plugin.c").read_text()
    head = text[:text.index("const ig_backend *ig_backend_entry")]
    (COPY / "src/backend/scratch").mkdir(parents=True)
    (COPY / "src/backend/scratch/scratch.c").write_text(
        head + "extern const ig_backend ig_scratch_backend;\n"
        "const ig_backend ig_scratch_backend = {IG_BACKEND_ABI, sizeof(ig_backend), "
        '.name = "scratch", .version = "1", .compile = compile};\n')


def run(*command, env=None, expect=None):
    print("+", *command, *(f"{k}={v}" for k, v in (env or {}).items()), flush=True)
    result = subprocess.run([str(c) for c in command], env={**os.environ, **(env or {})},
                            capture_output=True, text=True)
    text = result.stdout + result.stderr
    if result.returncode != 0 or (expect and expect not in text):
        print(text[-6000:])
        sys.exit(f"exit code {result.returncode}" + (f", {expect!r} expected" if expect else ""))
    return text


def build():
    # The flags of the sanitizers' builds: they compile in half of the time of a release.
    run(CMAKE, "-S", COPY, "-B", OUT, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=RelWithDebInfo",
        "-DCMAKE_C_FLAGS_RELWITHDEBINFO=-O1")
    targets = ["ingot_program", "conformance_test_ops", "conformance_test_grad",
               "conformance_test_vulkan"]
    run(CMAKE, "--build", OUT, "--parallel", "2", "--target", *targets)


def check_ops():
    ops, grad, vulkan = (OUT / f"tests/conformance/test_{n}" for n in ("ops", "grad", "vulkan"))
    for op in ("reverse", "softsign"):
        only = {"CONFORMANCE_OP": op}
        run(ops, env=only, expect=f"ref: PASS {op}")
        for isa in ISAS:
            text = run(ops, env={**only, "INGOT_ISA": isa})
            if f"cpu {isa} skipped" not in text:
                if f"cpu {isa}: PASS {op}" not in text:
                    sys.exit(f"{op} did not run on {isa}")
                run(grad, env={**only, "INGOT_ISA": isa}, expect="PASSED")
        text = run(vulkan, env=only)
        if "vulkan: skipped" not in text:
            if f"vulkan: PASS {op}" not in text:
                sys.exit(f"{op} did not run on vulkan")
            run(grad, env={**only, "INGOT_DEVICE": "vulkan"}, expect="PASSED")


def check_others():
    ingot = OUT / "bin/ingot"
    run(OUT / "tests/conformance/test_ops", env={"CONFORMANCE_OP": "add"},
        expect="scratch: PASS add")
    run(ingot, "devices", expect="scratch:0")
    run(ingot, "generate", "--help", expect="scratch")
    run(ingot, "archs", expect="scratchlm")
    run(ingot, "parity", "--arch", "scratchlm", "--devices", "ref,cpu", "-n", "4")
    run(ingot, "scratch", expect="scratched")
    run(ingot, "help", "--man", expect="ingot scratch")
    run(ingot, "completion", "bash", expect="scratch")


def check_plugin():
    plugin = BUILD / "plain.so"
    run(os.environ.get("CC", "cc"), "-std=c17", "-shared", "-fPIC", f"-I{COPY}/include",
        COPY / "examples/backend_plugin.c", "-o", plugin)
    run(OUT / "bin/ingot", "plugin", "check", plugin, expect="plain")


def main():
    shutil.rmtree(BUILD, ignore_errors=True)
    BUILD.mkdir(parents=True)
    names = copy_tree()
    over = [kind for kind in EDITS if add(kind, names) > LIMITS[kind]]
    if over:
        sys.exit(f"too many files: {' '.join(over)}")
    build()
    check_ops()
    check_others()
    check_plugin()
    shutil.rmtree(BUILD)


main()
