#!/usr/bin/env -S bash -euo pipefail
# Runs tests on emulated ARM: `tests/tools/arm.sh PYTHON TESTS...`. A cross compiler builds the wheel, and qemu-user runs it in
# a Debian root below build/arm. Needs Debian 12 and root, and registers qemu for ARM programs in the kernel (binfmt_misc).
# The mounts are in a namespace of this process, so that `make clean` deletes nothing outside of build/arm.
# The kernels have a cache of their own, because the cache's keys do not name the processor.
[ "${UNSHARED:-}" ] || UNSHARED=1 exec unshare --mount "$0" "$@"
python=$1 root=$PWD/build/arm binfmt=/proc/sys/fs/binfmt_misc cc="aarch64-linux-gnu-gcc --sysroot=$PWD/build/arm"
apt-get install -qq -y --no-install-recommends debootstrap gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static
[ -e $binfmt/register ] || mount -t binfmt_misc none $binfmt
[ -e $binfmt/qemu-aarch64 ] || cat /usr/lib/binfmt.d/qemu-aarch64.conf >$binfmt/register
[ -e "$root/etc" ] || debootstrap --foreign --arch=arm64 --variant=minbase --include=python3.11-dev bookworm "$root"
[ ! -e "$root/debootstrap" ] || chroot "$root" /debootstrap/debootstrap --second-stage
CC="$cc -I$root/usr/include/python3.11" LDSHARED="$cc -shared" SMALTI_BUILD_CACHE=$root/kernels "$python" setup.py -q \
    build --build-base "$root/build" bdist_wheel --plat-name linux_aarch64 --dist-dir "$root/wheel"
"$python" -m pip install -q --upgrade --target "$root/packages" --only-binary :all: --python-version 3.11 \
    --platform linux_aarch64 --platform manylinux2014_aarch64 --platform manylinux_2_28_aarch64 "$root"/wheel/*.whl \
    duckdb hypothesis numpy paimon-mosaic==0.2.0 pandas polars psutil pytest-timeout pytest-xdist
mkdir -p "$root/smalti" && mount --bind -o ro . "$root/smalti" && mount -t proc proc "$root/proc"
chroot "$root" env -C /smalti PYTHONPATH=/packages python3.11 -Bm pytest -p no:cacheprovider "${@:2}"
