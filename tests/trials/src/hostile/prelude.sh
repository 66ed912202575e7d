# What each setting's script may use. $RUN is `rampart run … --`, or nothing; $SUMS checks its own data.
skip() { echo "$1" >&2; exit 77; }
need() { command -v "$1" >/dev/null || skip "$1 is not installed"; }
there() { [[ -x $1 ]] || skip "cannot be compiled here"; }

# Runs a command in a mount namespace of its own, after what the first argument does to it.
mounted() { unshare --mount true 2>/dev/null || skip "no mount namespace"
  local first=$1; shift; unshare --mount --propagation private bash -c "$first"' && exec "$@"' mounted "$@"; }

# Runs a command as another user.
nobody() { [[ $EUID = 0 ]] || skip "needs root"; setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }

# Runs a command while a process of the program can be looked at: `pid` has its number; then waits for it.
beside() { rm -f pid; $RUN "$SUMS" long & local run=$!
  for _ in {1..400}; do [[ -s pid ]] && break; sleep 0.05; done
  "$@" "$(cat pid)" $run; wait $run; }

# Runs a command in a control group that ends with it: `grouped memory MIB COMMAND...`, `grouped pids NUMBER
# COMMAND...`.
grouped() { local which=$1 most=$2 group file; shift 2
  if [[ -d /sys/fs/cgroup/$which ]]; then
    group=$(mktemp -d "/sys/fs/cgroup/$which$(awk -F: -v w="$which" '$2 == w { print $3 }' /proc/self/cgroup)/trial.XXXXXX") || skip "no cgroup"
    case $which in memory) file=memory.limit_in_bytes;; pids) file=pids.max;; esac
  else
    group=$(mktemp -d "/sys/fs/cgroup$(awk -F: '$1 == 0 { print $3 }' /proc/self/cgroup)/trial.XXXXXX" 2>/dev/null) || skip "no cgroup"
    file=$which.max
  fi
  [[ -e $group/$file ]] || { rmdir "$group"; skip "no cgroup for $which"; }
  [[ $which = memory ]] && most=$((most << 20))
  echo "$most" >"$group/$file"
  (echo $BASHPID >"$group/cgroup.procs" && exec "$@"); local code=$?
  for _ in {1..50}; do rmdir "$group" 2>/dev/null && break; sleep 0.1; done
  return $code; }
