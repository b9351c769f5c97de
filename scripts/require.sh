#!/bin/sh
# Installs those of the given Debian packages that are missing; on other systems says which they are.
set -eu

missing_of() {
    case $1 in
    python3-venv) python3 -c 'import ensurepip, venv' 2>/dev/null && return ;;
    rabbitmq-server) { command -v rabbitmq-server || command -v /usr/sbin/rabbitmq-server; } >/dev/null 2>&1 && return ;;
    fonts-dejavu-core) [ -e /usr/share/fonts/truetype/dejavu/DejaVuSans.ttf ] && return ;;
    systemd) command -v systemd-analyze >/dev/null 2>&1 && return ;;
    *) command -v "$1" >/dev/null 2>&1 && return ;;
    esac
    echo "$1"
}

missing=
for package in "$@"; do
    missing="$missing $(missing_of "$package")"
done
missing=$(echo $missing)
[ -n "$missing" ] || exit 0

if ! command -v apt-get >/dev/null 2>&1; then
    echo "Missing: $missing. This is no Debian or Ubuntu: install it with your package manager," >&2
    echo "or for Prometheus put the binary from its release page on the PATH, then try again." >&2
    exit 1
fi
as_root=
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null 2>&1 || {
        echo "Missing: $missing. As root: apt-get install $missing" >&2
        exit 1
    }
    as_root=sudo
fi
echo "Installing from the distribution: $missing"
export DEBIAN_FRONTEND=noninteractive
$as_root apt-get update -qq
$as_root apt-get install -y -qq --no-install-recommends $missing >/dev/null
# The demo and the tests start their own servers on free ports; the services of the packages
# are not needed.
if [ -d /run/systemd/system ]; then
    for service in prometheus rabbitmq-server; do
        case " $missing " in *" $service "*) $as_root systemctl disable --now --quiet "$service" || true ;; esac
    done
fi
