# Programs that stand for hardware; `run` and `table` source this file.

# Runs a command as what does not wait for its turn: a stuck cell that waited for a CPU would pass a test of its frame.
# Where it is allowed, the command goes before all other programs. Only one does at a time: two would leave nothing of a
# small machine.
as_hardware() (
  first=(nice -n -20)
  if exec 8>"${TMPDIR:-/tmp}/rampart-badram.lock" && flock -n 8 && chrt --fifo 1 true 2>/dev/null; then
    first=(chrt --fifo 1)
  fi
  exec "${first[@]}" "$@"
)
