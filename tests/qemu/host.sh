# What the host of a guest does with the guest's memory: gives it by virtio-mem, takes it back, and says what is left on
# the host. `run` sources this file.
#
# A scenario asks for it in its first lines, beside its boot memory:
#
#   # virtio-mem: 3G            a virtio-mem device of this size, all of which is requested at first
#   # modules: virtio_mem       modules of its kernel, and those on which they depend: guest/init loads them on request
#   # host: yes                 no virtio-mem, but the host answers
#
# The guest asks on its report port, and reads one line as an answer (`host` in guest/init). With "# icount: N", a
# program of the guest asks (guest/host.h), and the guest stands still until the host has answered.
#
#   host shrink BYTES           lowers requested-size by BYTES: the answer is "ok"
#   host request BYTES          sets requested-size: the answer is "ok"
#   host size                   the answer is "ok requested BYTES actual BYTES"
#   host memory                 the answer is "ok requested BYTES actual BYTES virtio-mem KIB boot KIB": requested-size
#                               and what the device has plugged, then what QEMU has resident of each memory
#   host plug NAME BYTES        puts a memory module in, which "# qemu: -m 1G,slots=2,maxmem=2G" has room for: "ok"
#   host unplug NAME            takes it out again, when the guest has let it go: "ok"
#   host uncorrected ADDRESS    a program that runs on CPU 0, and is not busybox, reads an error there that the hardware
#                               cannot correct: "ok"

# Whether a scenario has such a host.
has_host() {
  [[ -n $(setting "$1" virtio-mem)$(setting "$1" host) ]]
}

# Adds QEMU's options for it to `start`.
add_host() {
  local scenario=$1 work=$2 memory=$3 size
  has_host "$scenario" || return 0
  rm -f "$work/qmp.in" "$work/qmp.out"
  mkfifo "$work/qmp.in" "$work/qmp.out"
  start+=(-chardev "pipe,id=qmp,path=$work/qmp" -mon chardev=qmp,mode=control -pidfile "$work/qemu.pid")
  [[ -z $(setting "$scenario" icount) ]] || start+=(-device pvpanic -action panic=pause)
  size=$(setting "$scenario" virtio-mem)
  [[ -n $size ]] || return 0
  lent=$(mktemp /dev/shm/rampart-lent.XXXXXX)
  start+=(-m "$memory,maxmem=$(($(numfmt --from=iec "$memory") + $(numfmt --from=iec "$size")))")
  start+=(-object "memory-backend-file,id=lent,size=$size,share=on,reserve=off,mem-path=$lent")
  start+=(-device "virtio-mem-pci,id=vm0,memdev=lent,requested-size=$size,block-size=2M,prealloc=on")
}

# Answers the guest's requests, one a line, until there are no more.
obey_as_host() {
  local scenario=$1 work=$2 name bytes reply requested stops
  stops=$(setting "$scenario" icount)
  exec 6<>"$work/qmp.in" 7<>"$work/qmp.out"
  qmp '{"execute": "qmp_capabilities"}' >/dev/null
  while read -r name bytes; do
    [[ -z $stops ]] || await_stop
    case $name in
      shrink | request)
        requested=$(device requested-size)
        [[ $name = request ]] || bytes=$((requested - bytes))
        reply=$(qmp '{"execute": "qom-set", "arguments": {"path": "/machine/peripheral/vm0", "property": "requested-size", "value": '"$bytes"'}}')
        case $reply in *'"return"'*) echo ok ;; *) echo "error $reply" ;; esac
        ;;
      size) echo "ok $(sizes)" ;;
      memory)
        echo "ok $(sizes)" "virtio-mem $(resident "$work" "${lent:-none}") boot $(resident "$work" "$ram")"
        ;;
      plug) plug "${bytes% *}" "${bytes#* }" ;;
      unplug) unplug "$bytes" ;;
      uncorrected) uncorrected "$bytes" ;;
      *) echo "error no such request: $name" ;;
    esac
    [[ -z $stops ]] || qmp '{"execute": "cont"}' >/dev/null
  done
}

plug() {
  local reply
  reply=$(qmp '{"execute": "object-add", "arguments": {"qom-type": "memory-backend-ram", "id": "memory-'"$1"'", "size": '"$2"'}}')
  [[ $reply != *'"return"'* ]] ||
    reply=$(qmp '{"execute": "device_add", "arguments": {"driver": "pc-dimm", "id": "'"$1"'", "memdev": "memory-'"$1"'"}}')
  answer_with "$reply"
}

# The guest is asked to let it go, and its memory stays in use until then.
unplug() {
  local reply tries=0
  reply=$(qmp '{"execute": "device_del", "arguments": {"id": "'"$1"'"}}')
  [[ $reply = *'"return"'* ]] || tries=100
  while [[ $tries -lt 100 ]]; do
    reply=$(qmp '{"execute": "object-del", "arguments": {"id": "memory-'"$1"'"}}')
    [[ $reply != *'"return"'* ]] || break
    tries=$((tries + 1))
    sleep 0.2
  done
  answer_with "$reply"
}

# A machine check, as of an Intel processor whose load met an error at an address: a valid, uncorrected and signalled
# error for which the program that runs must do something (MCi_STATUS), while its instruction pointer is valid
# (MCG_STATUS); the address is one of the machine, and right to 4 KiB (MCi_MISC) [Intel SDM 3B, 15.9.3].
uncorrected() {
  local tries
  # Threads that this request has woken, or a signal before it, run for a moment.
  sleep 0.1
  for ((tries = 0; tries < 1000; tries++)); do
    qmp '{"execute": "stop"}' >/dev/null
    # Code of busybox is at lower addresses.
    if monitor 'info registers' | grep -q 'RIP=00005.*CPL=3'; then
      monitor "mce 0 1 0xbd80000000000134 0x7 $1 0x8c" >/dev/null
      qmp '{"execute": "cont"}' >/dev/null
      echo ok
      return
    fi
    qmp '{"execute": "cont"}' >/dev/null
    sleep 0.01
  done
  echo "error no program runs on CPU 0"
}

# The same by a command for people, which QMP has no word for.
monitor() {
  qmp '{"execute": "human-monitor-command", "arguments": {"command-line": "'"$1"'"}}'
}

answer_with() {
  case $1 in *'"return": '*) echo ok ;; *) echo "error $1" ;; esac
}

# Waits until the guest has stopped itself, which it does as soon as it has asked.
await_stop() {
  until [[ $(qmp '{"execute": "query-status"}') != *'"running": true'* ]]; do sleep 0.01; done
}

# Has QEMU obey a command of QMP; prints what it returns. Events and the greeting come between.
qmp() {
  local line
  printf '%s\n' "$1" >&6
  while read -r -t 30 line <&7; do
    case $line in *'"return"'* | *'"error"'*) break ;; esac
  done
  printf '%s\n' "$line"
}

sizes() {
  echo "requested $(device requested-size) actual $(device size)"
}

# A number of the virtio-mem device, 0 if there is none.
device() {
  local number
  number=$(qmp '{"execute": "query-memory-devices"}' | sed -n 's/.*"'"$1"'": *\([0-9]*\).*/\1/p')
  echo "${number:-0}"
}

# How much QEMU has resident of a file that is a guest's memory, in KiB.
resident() {
  awk -v file="$2" '/^[0-9a-f]+-/ { in_file = $6 == file } in_file && $1 == "Rss:" { sum += $2 } END { print sum + 0 }' \
    "/proc/$(cat "$1/qemu.pid")/smaps"
}

# The guest's modules, in the order in which they load: 01-virtio.ko, ...
install_modules() {
  local scenario=$1 folder=$2 name
  loaded=()
  for name in $(setting "$scenario" modules); do
    install_module "$name" "$folder"
  done
}

# A module after those on which it depends. One that the kernel has built in has no file.
install_module() {
  local name=$1 folder=$2 file target needed
  [[ " ${loaded[*]} " != *" $name "* ]] || return 0
  loaded+=("$name")
  file=$(find "$(dirname "$kernel")/../lib/modules" -name "$name.ko" -o -name "$name.ko.xz")
  [[ -n $file ]] || return 0
  mkdir -p "$folder"
  target=$(mktemp "$cache/module.XXXXXX")
  if [[ $file = *.xz ]]; then xz -dc "$file" >"$target"; else cp "$file" "$target"; fi
  for needed in $(tr '\0' '\n' <"$target" | sed -n 's/^depends=//p' | tr ',' ' '); do
    install_module "$needed" "$folder"
  done
  mv "$target" "$folder/$(printf '%02d' "$(find "$folder" -type f | wc -l)")-$name.ko"
}
