"""A machine made of files, which tests change before they have it examined."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from bolide.doctor.examination import Examination, examine
from bolide.doctor.finding import Finding, Load
from bolide.doctor.listening import Listening
from bolide.doctor.source import Source

SETTINGS = {
    "fs.epoll.max_user_watches": "3000000",
    "fs.file-max": "2466170",
    "fs.file-nr": "900\t0\t2466170",
    "fs.nr_open": "1048576",
    "kernel.msgmax": "8192",
    "kernel.msgmnb": "16384",
    "kernel.msgmni": "32000",
    "kernel.osrelease": "6.18.44-arch1",
    "net.core.busy_poll": "0",
    "net.core.busy_read": "0",
    "net.core.default_qdisc": "fq_codel",
    "net.core.netdev_max_backlog": "1000",
    "net.core.rmem_default": "212992",
    "net.core.rmem_max": "4194304",
    "net.core.somaxconn": "4096",
    "net.core.wmem_default": "212992",
    "net.core.wmem_max": "4194304",
    "net.ipv4.ip_local_port_range": "32768\t60999",
    "net.ipv4.ip_local_reserved_ports": "",
    "net.ipv4.route.max_size": "2147483647",
    "net.ipv4.tcp_abort_on_overflow": "0",
    "net.ipv4.tcp_autocorking": "1",
    "net.ipv4.tcp_available_congestion_control": "reno bbr cubic",
    "net.ipv4.tcp_congestion_control": "cubic",
    "net.ipv4.tcp_fack": "0",
    "net.ipv4.tcp_fastopen": "1",
    "net.ipv4.tcp_fin_timeout": "60",
    "net.ipv4.tcp_keepalive_intvl": "75",
    "net.ipv4.tcp_keepalive_probes": "9",
    "net.ipv4.tcp_keepalive_time": "7200",
    "net.ipv4.tcp_low_latency": "0",
    "net.ipv4.tcp_max_orphans": "131072",
    "net.ipv4.tcp_max_syn_backlog": "2048",
    "net.ipv4.tcp_max_tw_buckets": "131072",
    "net.ipv4.tcp_mem": "287898\t383867\t575796",
    "net.ipv4.tcp_migrate_req": "0",
    "net.ipv4.tcp_moderate_rcvbuf": "1",
    "net.ipv4.tcp_notsent_lowat": "4294967295",
    "net.ipv4.tcp_pingpong_thresh": "1",
    "net.ipv4.tcp_rmem": "4096\t131072\t33554432",
    "net.ipv4.tcp_sack": "1",
    "net.ipv4.tcp_slow_start_after_idle": "0",
    "net.ipv4.tcp_syn_linear_timeouts": "4",
    "net.ipv4.tcp_syn_retries": "6",
    "net.ipv4.tcp_synack_retries": "5",
    "net.ipv4.tcp_syncookies": "1",
    "net.ipv4.tcp_timestamps": "1",
    "net.ipv4.tcp_tw_reuse": "2",
    "net.ipv4.tcp_tw_reuse_delay": "1000",
    "net.ipv4.tcp_window_scaling": "1",
    "net.ipv4.tcp_wmem": "4096\t16384\t4194304",
    "net.unix.max_dgram_qlen": "10",
}
COUNTERS = (
    "ListenOverflows ListenDrops SyncookiesSent TCPReqQFullDoCookies TCPReqQFullDrop "
    "TCPTimeWaitOverflow"
).split()
LIMITS = """\
Limit                     Soft Limit           Hard Limit           Units
Max core file size        0                    unlimited            bytes
Max open files            {soft:<20} {hard:<20} files
"""
CPU_FOLDER = "sys/devices/system/cpu"
V2 = "sys/fs/cgroup"


class Machine:
    """Files below a folder; by default a server that nothing limits, with Linux 6.18."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name, value in SETTINGS.items():
            self.set(name, value)
        self.write("proc/meminfo", "MemTotal:       16000000 kB\nMemFree: 1 kB\n")
        self.write("proc/cpuinfo", "model name : x\nflags : fpu vme sse2\n")
        self.write("proc/self/status", "Name:\tx\nCpus_allowed_list:\t0-7\n")
        self.write(f"{CPU_FOLDER}/online", "0-7\n")
        for number in range(2):
            folder = f"{CPU_FOLDER}/cpu{number}/cpufreq"
            self.write(f"{folder}/scaling_governor", "performance\n")
            self.write(f"{folder}/scaling_cur_freq", f"{3_000_000 + number * 500_000}\n")
            self.write(f"{folder}/cpuinfo_max_freq", "4000000\n")
        self.write("sys/class/dmi/id/sys_vendor", "Maker\n")
        self.write("sys/class/dmi/id/product_name", "Box 1\n")
        self.write("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n")
        self.write("proc/net/sockstat", "sockets: used 20\nTCP: inuse 1 orphan 0 tw 9 mem 35\n")
        self.write("proc/self/cgroup", "0::/app\n")
        self.write("proc/self/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n")
        self.write(f"{V2}/app/cpu.max", "max 100000\n")
        self.write(f"{V2}/app/memory.max", "max\n")
        self.write(f"{V2}/app/memory.current", "104857600\n")
        self.write(f"{V2}/app/pids.max", "max\n")
        self.write(f"{V2}/app/pids.current", "12\n")
        self.limits(65536, 524288)
        self.times()
        self.count()
        self.drop(0, 0)
        for resource in ("cpu", "memory", "io"):
            self.pressure(resource, 0.0)

    def write(self, path: str, text: str) -> None:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def remove(self, path: str) -> None:
        (self.root / path).unlink()

    def set(self, name: str, value: str) -> None:
        self.write("proc/sys/" + name.replace(".", "/"), value + "\n")

    def get(self, name: str) -> str:
        return (self.root / "proc/sys" / name.replace(".", "/")).read_text().strip()

    def unset(self, name: str) -> None:
        self.remove("proc/sys/" + name.replace(".", "/"))

    def limits(self, soft: int | str, hard: int | str, process: str = "self") -> None:
        self.write(f"proc/{process}/limits", LIMITS.format(soft=soft, hard=hard))

    def times(self, busy: int = 1000, idle: int = 9000, steal: int = 0) -> None:
        self.write("proc/stat", f"cpu  {busy} 0 0 {idle} 0 0 0 {steal} 0 0\ncpu0 0\n")

    def count(self, **counts: int) -> None:
        values = " ".join(str(counts.get(name, 0)) for name in COUNTERS)
        self.write("proc/net/netstat", f"TcpExt: {' '.join(COUNTERS)}\nTcpExt: {values}\n")

    def drop(self, *packets: int) -> None:
        rows = (f"2a5fe7fa {count:08x} 000000e3 00000000\n" for count in packets)
        self.write("proc/net/softnet_stat", "".join(rows))

    def pressure(self, resource: str, share: float) -> None:
        text = f"some avg10={share:.2f} avg60=27.79 avg300=7.88 total=4675671807\n"
        self.write(f"proc/pressure/{resource}", text + "full avg10=99.00 avg60=0 total=0\n")

    def examine(
        self,
        load: Load | None = None,
        wait: Callable[[], None] | None = None,
        listening: tuple[Listening, ...] = (),
    ) -> Examination:
        passes = wait or (lambda: self.times(1400, 9600))
        return examine(Source(self.root), load or Load(), passes, lambda port: list(listening))

    def row(self, name: str, load: Load | None = None) -> Finding:
        return named(self.examine(load), name)


def named(examination: Examination, name: str) -> Finding:
    [found] = [each for each in examination.findings if each.name == name]
    return found
