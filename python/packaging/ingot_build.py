"""The build backend of pyproject.toml: CMake builds the library, this packs it (PEP 517, PEP 660).

    ingot/*.py, rm_abstract/*.py   the package, and its other name
    ingot/lib/libingot.so          the library; with --manylinux also the libraries that it needs
    ingot/lib/ingot/plugins/       plugins, where the library looks
    ingot/bin/ingot                the program
    ingot/share/ingot/             the model that comes with it

Nothing depends on the version of Python, so the tag is py3-none-PLATFORM.  tools/wheel calls this file
to make a manylinux wheel: its libraries besides glibc come along, and the tag is the newest version of
glibc that a symbol asks for.  Equal inputs give equal bytes.

config_settings: build-dir (default build/wheel), cmake-args, manylinux.
"""
from __future__ import annotations

import base64
import hashlib
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import time
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# Libraries that a manylinux wheel may expect on every system.
SYSTEM = re.compile(r"(ld-linux.*|linux-vdso|lib(c|m|dl|rt|pthread|util|gcc_s|stdc\+\+))\.so")


# ---- metadata ----

def project():
    try:
        import tomllib
    except ImportError:
        import tomli as tomllib
    made = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    text = (ROOT / "CMakeLists.txt").read_text()
    made["version"] = re.search(r"^project\(ingot VERSION ([\d.]+)", text, re.M)[1]
    return made


def metadata(made):
    """The text of METADATA (core metadata 2.4)."""
    lines = ["Metadata-Version: 2.4", f"Name: {made['name']}", f"Version: {made['version']}",
             f"Summary: {made['description']}", f"License-Expression: {made['license']}",
             *(f"License-File: {name}" for name in made["license-files"]),
             f"Keywords: {','.join(made['keywords'])}",
             *(f"Classifier: {name}" for name in made["classifiers"]),
             f"Requires-Python: {made['requires-python']}",
             *(f"Requires-Dist: {name}" for name in made["dependencies"]),
             "Description-Content-Type: text/markdown", "", (ROOT / made["readme"]).read_text()]
    return "\n".join(lines)


def dist_info(made, tag):
    """The files of the .dist-info folder but RECORD."""
    scripts = "".join(f"{name} = {target}\n" for name, target in made["scripts"].items())
    wheel = f"Wheel-Version: 1.0\nGenerator: ingot_build\nRoot-Is-Purelib: false\nTag: {tag}\n"
    files = {"METADATA": metadata(made), "WHEEL": wheel,
             "entry_points.txt": f"[console_scripts]\n{scripts}"}
    files = {name: text.encode() for name, text in files.items()}
    for name in made["license-files"]:
        files[f"licenses/{name}"] = (ROOT / name).read_bytes()
    return files


# ---- building ----

def compile_library(build, extra):
    """Configures and builds the library, the program and the plugin in `build`."""
    origin = r"$ORIGIN;$ORIGIN/../lib"
    # RPATH, not RUNPATH: it also applies to what the libraries that come along need themselves.
    link = "-Wl,--disable-new-dtags -Wl,-s"
    ninja = ["-G", "Ninja"] if shutil.which("ninja") else []
    run("cmake", "-S", str(ROOT), "-B", str(build), *ninja, "-DCMAKE_BUILD_TYPE=Release",
        "-DINGOT_TESTS=OFF", "-DCMAKE_INSTALL_LIBDIR=lib", "-DCMAKE_BUILD_WITH_INSTALL_RPATH=ON",
        f"-DCMAKE_INSTALL_RPATH={origin}", f"-DCMAKE_SHARED_LINKER_FLAGS={link}",
        f"-DCMAKE_EXE_LINKER_FLAGS={link}", f"-DCMAKE_MODULE_LINKER_FLAGS={link}", *extra)
    run("cmake", "--build", str(build), "--parallel", "--target", "ingot", "ingot_program", "simnpu")


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.stderr.write(done.stdout[-8000:])
        raise SystemExit(f"ingot_build: failed: {shlex.join(command)}\n"
                         "tools/setup build installs what the build needs on Debian")


def built_files(build):
    """Paths in the wheel of what CMake has built."""
    return {"ingot/lib/libingot.so": (build / "lib" / "libingot.so").resolve(),
            "ingot/lib/ingot/plugins/simnpu.so": build / "lib" / "ingot" / "plugins" / "simnpu.so",
            "ingot/bin/ingot": build / "bin" / "ingot",
            "ingot/share/ingot/stories.oam": ROOT / "models" / "stories.oam"}


def package_files():
    return {f"{package}/{path.name}": path for package in ("ingot", "rm_abstract")
            for path in sorted((ROOT / "python" / package).iterdir())
            if path.suffix == ".py" or path.name == "py.typed"}


def needed_libraries(paths):
    """Files of the libraries that these need, but for those of the system."""
    found = {}
    for path in paths:
        shown = subprocess.run(["ldd", str(path)], capture_output=True, text=True).stdout
        for name, target in re.findall(r"^\s*(\S+) => (\S+)", shown, re.M):
            if SYSTEM.match(name):
                continue
            if not target.startswith("/"):
                raise SystemExit(f"ingot_build: {path.name} needs {name}, which is not installed")
            found[name] = pathlib.Path(target).resolve()
    return found


def copyrights(libraries):
    """Debian's copyright files of libraries that come along, by the name of their package."""
    found = {}
    for path in libraries:
        shown = subprocess.run(["dpkg", "-S", str(path)], capture_output=True, text=True).stdout
        package = shown.split(":")[0]
        text = pathlib.Path("/usr/share/doc") / package / "copyright"
        if not package or not text.exists():
            raise SystemExit(f"ingot_build: no license found for {path}")
        found[f"licenses/{package}.txt"] = text.read_bytes()
    return found


def glibc_of(paths):
    """The newest version of glibc that a symbol of these files asks for."""
    versions = [(2, 17)]
    for path in paths:
        versions += [tuple(map(int, one)) for one in
                     re.findall(rb"\0GLIBC_(\d+)\.(\d+)(?:\.\d+)?(?=\0)", path.read_bytes())]
    return max(versions)


# ---- packing ----

def moment():
    """The time of all files: SOURCE_DATE_EPOCH, or the first that zip knows."""
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
    return max(time.gmtime(epoch)[:6], (1980, 1, 1, 0, 0, 0))


def write_wheel(path, files, info, folder):
    """Files are paths or bytes by name; `info` those of the .dist-info folder."""
    everything = dict(sorted(files.items()))
    everything.update((f"{folder}/{name}", data) for name, data in sorted(info.items()))
    rows = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        for name, source in everything.items():
            data = source if isinstance(source, bytes) else pathlib.Path(source).read_bytes()
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            rows.append(f"{name},sha256={digest},{len(data)}")
            add(out, name, data)
        rows.append(f"{folder}/RECORD,,")
        add(out, f"{folder}/RECORD", ("\n".join(rows) + "\n").encode())


def add(out, name, data):
    entry = zipfile.ZipInfo(name, moment())
    runs = name.startswith("ingot/bin/") or name.endswith(".so")
    entry.external_attr = (0o100755 if runs else 0o100644) << 16
    entry.compress_type = zipfile.ZIP_DEFLATED
    out.writestr(entry, data)


# ---- hooks of PEP 517 and PEP 660 ----

def get_requires_for_build_wheel(config_settings=None):
    return [] if shutil.which("cmake") else ["cmake>=3.22", "ninja"]


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    made = project()
    name = f"{made['name']}-{made['version']}.dist-info"
    for path, data in dist_info(made, tag_of(local_platform())).items():
        file = pathlib.Path(metadata_directory) / name / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    return name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    settings = config_settings or {}
    build = pathlib.Path(settings.get("build-dir", ROOT / "build" / "wheel")).resolve()
    compile_library(build, shlex.split(settings.get("cmake-args", "")))
    made, files = project(), {**package_files(), **built_files(build)}
    platform, licenses = local_platform(), {}
    if settings.get("manylinux"):
        binaries = [path for name, path in files.items() if "/bin/" in name or name.endswith(".so")]
        libraries = needed_libraries(binaries)
        files.update((f"ingot/lib/{name}", path) for name, path in libraries.items())
        licenses = copyrights(libraries.values())
        major, minor = glibc_of([*binaries, *libraries.values()])
        platform = f"manylinux_{major}_{minor}_{os.uname().machine}"
    return pack(wheel_directory, made, files, platform, licenses)


def pack(folder, made, files, platform, licenses=None):
    tag = tag_of(platform)
    name = f"{made['name']}-{made['version']}"
    path = pathlib.Path(folder) / f"{name}-{tag}.whl"
    write_wheel(path, files, {**dist_info(made, tag), **(licenses or {})}, f"{name}.dist-info")
    return path.name


def tag_of(platform):
    return f"py3-none-{platform}"


def local_platform():
    return re.sub(r"[-.]", "_", sysconfig.get_platform())


get_requires_for_build_editable = get_requires_for_build_wheel
prepare_metadata_for_build_editable = prepare_metadata_for_build_wheel


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """The package of this clone, with the library of build/release, which is built if missing."""
    build = ROOT / "build" / "release"
    if not (build / "lib" / "libingot.so").exists():
        run("cmake", "-S", str(ROOT), "-B", str(build), "-DCMAKE_BUILD_TYPE=Release",
            "-DINGOT_TESTS=OFF")
        run("cmake", "--build", str(build), "--parallel", "--target", "ingot", "ingot_program",
            "simnpu")
    files = {"__editable__.ingot.pth": f"{ROOT / 'python'}\n".encode()}
    return pack(wheel_directory, project(), files, local_platform())


def get_requires_for_build_sdist(config_settings=None):
    return []


def build_sdist(sdist_directory, config_settings=None):
    """The files that git knows, and PKG-INFO."""
    made = project()
    name = f"{made['name']}-{made['version']}"
    shown = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, check=True)
    path = pathlib.Path(sdist_directory) / f"{name}.tar.gz"
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
    with tarfile.open(path, "w:gz", format=tarfile.PAX_FORMAT) as out:
        info = pathlib.Path(sdist_directory) / "PKG-INFO"
        info.write_text(metadata(made))
        out.add(info, f"{name}/PKG-INFO")
        info.unlink()
        for file in sorted(filter(None, shown.stdout.decode().split("\0"))):
            out.add(ROOT / file, f"{name}/{file}", recursive=False,
                    filter=lambda entry: plain(entry, epoch))
    return path.name


def plain(entry, epoch):
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mtime = epoch
    return entry


def main():
    if len(sys.argv) != 3 or sys.argv[1] != "--manylinux":
        raise SystemExit("usage: ingot_build.py --manylinux FOLDER")
    pathlib.Path(sys.argv[2]).mkdir(parents=True, exist_ok=True)
    settings = {"manylinux": "yes"}
    for name in ("build-dir", "cmake-args"):
        value = os.environ.get("INGOT_WHEEL_" + name.upper().replace("-", "_"))
        if value:
            settings[name] = value
    print(pathlib.Path(sys.argv[2]) / build_wheel(sys.argv[2], settings))


if __name__ == "__main__":
    main()
