"""The command line: python3 -m rust_bindings."""

import argparse
import sys

from .stage import make_stage
from .stage import StageError


def main():
    """Make a stage; return the exit status."""
    parser = argparse.ArgumentParser(
        prog='rust_bindings',
        description='Writes Rust bindings of interface packages, and of those they depend on, to '
                    'STAGE/share/<package>/rust, as far as they bring none.')
    parser.add_argument('--package', help='name of a package that is not yet installed')
    parser.add_argument('--version', help='version of that package')
    parser.add_argument(
        '--definitions', help='folder with the .idl files of that package, in msg, srv and action')
    parser.add_argument('--stage', required=True, help='prefix to write to')
    parser.add_argument(
        '--depends', nargs='*', default=[], help='further packages to have bindings of')
    arguments = parser.parse_args()
    if arguments.package and not (arguments.version and arguments.definitions):
        parser.error('--package needs --version and --definitions')
    try:
        written = make_stage(
            arguments.package, arguments.version, arguments.definitions, arguments.depends,
            arguments.stage)
    except (StageError, TypeError) as error:
        print('rust_bindings: error: {}'.format(error), file=sys.stderr)
        return 1
    print('Rust bindings written: {}'.format(', '.join(written) or 'none, all up to date'))
    return 0


if __name__ == '__main__':
    sys.exit(main())
