# Common to the scripts in scripts/: where things are, how a step is told, how a failure is told.
# Sourced, never run. The caller has `set -euo pipefail`.

TOP="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
PACKAGE=embodied_harness
ENV_DIR="$TOP/.ros_env"
# Loads the environment of the distribution that was set up last.
ENV_FILE="$ENV_DIR/env.sh"
SUPPORTED_DISTROS="jazzy kilted"
DEFAULT_DISTRO=jazzy

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

# folder_of NAME DISTRO: the folder build or install of a distribution. Those of one never mix with those
# of another; the default one's are where everybody looks for them.
folder_of() {
  if [ "$2" = "$DEFAULT_DISTRO" ]; then
    printf '%s\n' "$TOP/$1"
  else
    printf '%s\n' "$TOP/$1/$2"
  fi
}

# load_environment [DISTRO]: loads an environment that scripts/setup wrote. Without a name it is the one
# that is loaded already, else the one that was set up last.
load_environment() {
  local distro="${1:-}" file="$ENV_FILE"
  if [ -z "$distro" ] && [ "${EMBODIED_HARNESS_ENV:-}" = "$TOP" ]; then
    distro="$ROS_DISTRO"
  fi
  [ -z "$distro" ] || file="$ENV_DIR/env-$distro.sh"
  [ -f "$file" ] ||
    die "the environment is not set up: run scripts/setup${distro:+ --distro $distro} first"
  # The files of ROS 2 read variables that may be unset.
  set +u
  # shellcheck disable=SC1090
  . "$file"
  set -u
}

# Lets Cargo build and run our nodes outside of CMake just as CMake does: with the bindings that CMake
# staged, the libraries in its build folder, and its target folder.
load_cargo_environment() {
  local build
  build="$(folder_of build "$ROS_DISTRO")/$PACKAGE"
  [ -f "$build/cargo_environment.sh" ] && [ -d "$build/stage/share" ] ||
    die "the package's interfaces are not built: run scripts/setup first"
  # shellcheck disable=SC1091
  . "$build/cargo_environment.sh"
  export LD_LIBRARY_PATH="$build${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
}
