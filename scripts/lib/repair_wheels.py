"""Makes a virtual environment that holds the ROS 2 wheels a place to build against.

Run by the environment's own Python. Each repair leaves alone what is already in order, so that a
second run changes nothing.
"""

import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig

import numpy

PREFIX = pathlib.Path(sys.prefix)
LIB = PREFIX / 'lib'
PYTHON_LIBRARY_SUFFIX = '__rosidl_generator_py.so'
PARSER_CACHE = '''

# Added by embodied_harness: each definition is parsed once.
from embodied_harness_idl_cache import once  # noqa: E402
parse_idl_string = once(parse_idl_string)
'''


def repair_cmake_paths():
    """Replace the wheel builder's Python and NumPy folders by this environment's own."""
    numpy_include = numpy.get_include()
    python_include = sysconfig.get_paths()['include']
    patterns = (
        (re.compile(r'/opt/python/[^;"\s]*/numpy/(?:_core|core)/include'), numpy_include),
        (re.compile(r'/opt/python/[^;"\s]*/include/python3\.\d+'), python_include),
    )
    changed = 0
    for path in (PREFIX / 'share').rglob('*.cmake'):
        old = path.read_text(encoding='utf-8')
        new = old
        for pattern, replacement in patterns:
            new = pattern.sub(lambda _, text=replacement: text, new)
        if new != old:
            path.write_text(new, encoding='utf-8')
            changed += 1
    return changed


def repair_needed_libraries():
    """Remove the need for the Python libraries from those that serve programs without a Python.

    The libraries of rosidl_generator_py itself keep theirs: rclpy needs them so.
    """
    patchelf = PREFIX / 'bin' / 'patchelf'
    changed = 0
    for library in sorted(LIB.glob('*.so')):
        if library.is_symlink() or library.name.endswith(PYTHON_LIBRARY_SUFFIX):
            continue
        # A needed library's name stands in the file as it is: most files need no patchelf at all.
        if PYTHON_LIBRARY_SUFFIX.encode() not in library.read_bytes():
            continue
        needed = subprocess.run(
            [patchelf, '--print-needed', library], check=True, capture_output=True, text=True)
        unwanted = [
            name for name in needed.stdout.split() if name.endswith(PYTHON_LIBRARY_SUFFIX)]
        if unwanted:
            arguments = [part for name in unwanted for part in ('--remove-needed', name)]
            subprocess.run([patchelf, *arguments, library], check=True)
            changed += 1
    return changed


def repair_rmw_library():
    """Give the one RMW of the wheels the name that rclrs links by."""
    link = LIB / 'librmw_implementation.so'
    if link.exists():
        return 0
    link.symlink_to('librmw_fastrtps_cpp.so')
    return 1


def speed_up_parser():
    """Have each interface definition parsed once and not by each generator."""
    packages = pathlib.Path(sysconfig.get_paths()['purelib'])
    shutil.copyfile(
        pathlib.Path(__file__).with_name('idl_cache.py'),
        packages / 'embodied_harness_idl_cache.py')
    parser = packages / 'rosidl_parser' / 'parser.py'
    text = parser.read_text(encoding='utf-8')
    if PARSER_CACHE in text:
        return 0
    parser.write_text(text + PARSER_CACHE, encoding='utf-8')
    return 1


def main():
    print('repaired: {} CMake files, {} libraries, {} RMW name, {} parser'.format(
        repair_cmake_paths(), repair_needed_libraries(), repair_rmw_library(), speed_up_parser()))


if __name__ == '__main__':
    main()
