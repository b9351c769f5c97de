#!/bin/sh
# Makes the folder $1 the root of its mount namespace and becomes systemd there, as PID 1.
#
# Run it as root in new mount, PID, UTS, IPC and cgroup namespaces.  /usr is the machine's, read
# only; the network is the machine's too.  $2 lists more read-only binds, `FROM TO` in each line.
set -eu
root=$1

mount --make-rprivate /
mount --bind "$root" "$root"
cd "$root"
for name in bin sbin lib lib32 lib64; do
    [ ! -L "/$name" ] || ln -s "usr/$name" "$name"
done
mkdir -p usr proc sys dev run tmp var/lib var/log old
bind() {
    mkdir -p ".$2"
    mount --rbind "$1" ".$2"
    mount -o remount,bind,ro ".$2"
}
bind /usr /usr
while read -r from to; do
    bind "$from" "$to"
done <"$2"
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=0755 tmpfs run
mount -t tmpfs -o mode=1777 tmpfs tmp
mount -t tmpfs -o mode=0755 tmpfs dev
mkdir dev/shm dev/mqueue dev/pts
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
for name in null zero full random urandom tty; do
    touch "dev/$name"
    mount --bind "/dev/$name" "dev/$name"
done

pivot_root . old
umount -l old
rmdir old
# Services get namespaces of their own; what is mounted later must reach them.
mount --make-rshared /
exec env -i container=test /lib/systemd/systemd --unit=basic.target --log-target=journal
