# Common to the scripts in scripts/: where things are, how a step is told, how a failure is told.
# Sourced, never run. The caller has `set -euo pipefail`.

TOP="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
PACKAGE=embodied_harness
ENV_DIR="$TOP/.ros_env"
ENV_FILE="$ENV_DIR/env.sh"
SUPPORTED_DISTROS="jazzy"

# One line for each step.
say() { printf '[%s] %s\n' "${0##*/}" "$*"; }

# One sentence that says what is wrong and how to mend it; ends the script.
die() {
  printf '[%s] error: %s\n' "${0##*/}" "$*" >&2
  exit 1
}

# Prints one digest of the content and names of the given files and folders.
digest_of() {
  local path
  for path in "$@"; do
    if [ -d "$path" ]; then
      find "$path" -type f -not -path '*/__pycache__/*' -print0
    elif [ -e "$path" ]; then
      printf '%s\0' "$path"
    fi
  done | LC_ALL=C sort -z | xargs -0 -r sha256sum | sha256sum | cut -d' ' -f1
}

# stamp_matches FILE TEXT: whether FILE holds exactly TEXT.
stamp_matches() { [ -f "$1" ] && [ "$(cat "$1")" = "$2" ]; }

# Loads the environment that scripts/setup wrote.
load_environment() {
  [ -f "$ENV_FILE" ] || die "the environment is not set up: run scripts/setup first"
  # The files of ROS 2 read variables that may be unset.
  set +u
  # shellcheck disable=SC1090
  . "$ENV_FILE"
  set -u
}

# Lets Cargo build and run our nodes outside of CMake just as CMake does: with the bindings that CMake
# staged, the libraries in its build folder, and its target folder.
load_cargo_environment() {
  local build="$TOP/build/$PACKAGE"
  [ -f "$build/cargo_environment.sh" ] && [ -d "$build/stage/share" ] ||
    die "the package's interfaces are not built: run scripts/setup first"
  # shellcheck disable=SC1091
  . "$build/cargo_environment.sh"
  export LD_LIBRARY_PATH="$build${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
}
