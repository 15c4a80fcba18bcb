"""The table of the C API agrees with the library, and another library is refused."""
import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

from support import ROOT, ingot, lib, program, python

from ingot import _abi, _library


class TheTable(unittest.TestCase):
    def test_every_struct_has_the_size_that_the_library_says(self):
        for name in _abi.STRUCTS:
            self.assertEqual(ctypes.sizeof(_library.struct(name)), lib.ig_struct_size(name.encode()),
                             name)

    def test_the_library_names_the_structs_of_the_table(self):
        names, i = [], 0
        while (name := lib.ig_struct_name(i)) is not None:
            names.append(name.decode())
            i += 1
        self.assertEqual(sorted(names), sorted(_abi.STRUCTS))
        self.assertEqual(lib.ig_struct_size(b"ig_nothing"), 0)
        self.assertEqual(lib.ig_struct_size(None), 0)

    def test_every_function_is_exported(self):
        library = lib.load()
        missing = [name for name in _abi.FUNCTIONS if not hasattr(library, name)]
        self.assertEqual(missing, [])

    @unittest.skipUnless(shutil.which("cc"), "no C compiler")
    def test_the_table_is_what_the_headers_say(self):
        done = subprocess.run([sys.executable, str(ROOT / "tools/python-abi"), "--check"],
                              capture_output=True, text=True, cwd=ROOT)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_the_statuses_have_exceptions(self):
        from ingot import errors
        numbers = {name for name in _abi.ENUMS if name.startswith("IG_ERR_")}
        self.assertEqual(numbers, set(errors.BY_STATUS))


class AnotherLibrary(unittest.TestCase):
    """A missing library, or one of another version, is a LibraryError, which is an ImportError."""

    CODE = ("import ingot\n"
            "try: ingot.devices()\n"
            "except ingot.LibraryError as problem:\n"
            "    assert isinstance(problem, ImportError) and problem.status\n"
            "    print(problem)")

    def refusal(self, path):
        return program(self.CODE, env={"INGOT_LIBRARY": path})

    def fake(self, source):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = os.path.join(folder.name, "libfake.so")
        subprocess.run(["cc", "-shared", "-fPIC", "-xc", "-o", path, "-"], input=source, text=True,
                       check=True)
        return path

    def test_a_missing_library_is_named(self):
        self.assertIn("/none/libingot.so: no such file", self.refusal("/none/libingot.so"))

    def test_a_file_that_is_no_library_is_refused(self):
        self.assertIn("cannot be loaded", self.refusal(__file__))

    @unittest.skipUnless(shutil.which("cc"), "no C compiler")
    def test_another_version_is_refused(self):
        text = self.refusal(self.fake('#include <stddef.h>\n'
                                      'const char *ig_version(void) { return "99.0.0"; }\n'
                                      'size_t ig_struct_size(const char *n) { return n != 0; }'))
        self.assertIn("its version is 99.0.0", text)

    @unittest.skipUnless(shutil.which("cc"), "no C compiler")
    def test_structs_of_other_sizes_are_refused(self):
        text = self.refusal(self.fake('#include <stddef.h>\n'
                                      f'const char *ig_version(void) {{ return "{_abi.VERSION}"; }}\n'
                                      'size_t ig_struct_size(const char *n) { return n ? 3 : 0; }'))
        self.assertIn("has 3 bytes instead of", text)

    @unittest.skipUnless(shutil.which("cc"), "no C compiler")
    def test_a_library_without_sizes_is_refused(self):
        self.assertIn("no ig_struct_size()", self.refusal(self.fake("int unrelated;")))


class Importing(unittest.TestCase):
    def test_importing_loads_neither_numpy_nor_ctypes(self):
        names = program("import sys; before = set(sys.modules); import ingot\n"
                        "print(*(set(sys.modules) - before))").split()
        self.assertIn("ingot", names)
        self.assertFalse({"numpy", "ctypes", "typing", "torch"} & set(names), names)

    def test_a_star_import_has_every_public_name(self):
        done = python("-c", "from ingot import *; print(Model, LLM, Tensor, nn, optim, __version__)")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_the_list_of_public_names_is_that_of_their_homes(self):
        self.assertEqual(ingot.__all__, ["__version__", *ingot._MODULES, *sorted(ingot._HOME)])
        self.assertLessEqual(set(ingot.__all__), set(dir(ingot)))

    def test_an_unknown_name_is_an_attribute_error(self):
        with self.assertRaises(AttributeError):
            ingot.parrot


if __name__ == "__main__":
    unittest.main()
