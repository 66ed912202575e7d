# Where virtio-mem hands out memory that comes online, the kernel module leaves that to it, and says so.
# memory: 448M
# virtio-mem: 256M
# modules: virtio_pci virtio_mem
# kernel-module: yes

. /claims.sh

echo online_movable >"$memory"/auto_online_blocks
load_modules
check "the module loads" insmod /rampart.ko
check "the place is taken" grep -qx 'policy taken' $folder/new_memory
rampart kernel status >/tmp/status
check "status names who has it" grep -q '^new memory  is used untested: virtio-mem hands it out' /tmp/status
waits=0
until [ "$(meminfo MemTotal)" -gt $((550 << 10)) ] || [ $waits -gt 60 ]; do
  sleep 1
  waits=$((waits + 1))
done
check "virtio-mem has its memory in use" test "$(meminfo MemTotal)" -gt $((550 << 10))
check "the module has none of it" grep -qx 'untested 0' $folder/new_memory
check "the module can go" rmmod rampart
check "no oops, no warning" log_is_clean
