# What scenarios of the kernel module's claims share, for them to include.

folder=/sys/kernel/rampart

# claims NAME: a count of frames.
claims() {
  awk -v name="$1" '$1 == name { print $2 }' $folder/claims
}

# How many frames have no flag: in use by the kernel, on a list of a CPU, or lost.
without_mark() {
  od -An -v -tx8 /proc/kpageflags | awk '{ for (i = 1; i <= NF; i++) if ($i ~ /^0*$/) n++ } END { print n }'
}

log_is_clean() {
  ! dmesg | grep -E 'BUG|WARNING|Oops|Call Trace|INFO: |general protection|Bad page|corruption'
}

# begin CASE WORD...: the case of `window` runs until it says what it has, in $said; its process is $held.
begin() {
  : >/tmp/said
  window "$@" >/tmp/said 2>&1 &
  held=$!
  until [ -s /tmp/said ]; do kill -0 $held || return 1; done
  said=$(cat /tmp/said)
}
