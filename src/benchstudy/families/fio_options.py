"""What a study may say to fio: only options that shape I/O on the trial's own file.

A list of what is allowed and not of what is forbidden: fio can also run shell commands (exec_prerun), load
libraries (ioengine=external:…) and write wherever it likes (write_lat_log), and every version learns more.
"""

from typing import Literal

Engine = Literal["sync", "psync", "vsync", "pvsync", "pvsync2", "libaio", "posixaio", "io_uring", "mmap"]
Pattern = Literal["read", "write", "randread", "randwrite", "rw", "readwrite", "randrw"]
MIXED_PATTERNS = ("rw", "readwrite", "randrw")

EXTRA_OPTIONS = frozenset(
    {
        # how a block is chosen and what it holds
        "blockalign", "bs_unaligned", "bsrange", "bssplit", "buffer_compress_percentage", "buffer_pattern",
        "dedupe_percentage", "end_fsync", "fallocate", "fsync_on_close", "invalidate",
        "norandommap", "number_ios", "io_size", "offset", "overwrite", "percentage_random",
        "random_distribution", "random_generator", "randrepeat", "randseed", "refill_buffers", "rw_sequencer",
        "scramble_buffers", "softrandommap", "sync", "sync_file_range", "unlink", "verify", "verify_fatal",
        "zero_buffers", "do_verify", "create_fsync",
        # how operations are submitted and paced
        "atomic", "fixedbufs", "hipri", "iodepth_batch", "iodepth_batch_complete_max",
        "iodepth_batch_complete_min", "iodepth_batch_submit", "iodepth_low", "io_submit_mode",
        "latency_percentile", "latency_target", "latency_window", "max_latency", "nonvectored", "rate",
        "rate_iops", "rate_min", "rate_process", "registerfiles", "rwmixwrite", "sqthread_poll", "startdelay",
        "thinktime", "thinktime_blocks", "thread", "uncached",
        # what is recorded
        "clat_percentiles", "continue_on_error", "disable_clat", "disable_lat", "disable_slat", "gtod_reduce",
        "lat_percentiles", "percentile_list", "slat_percentiles", "clocksource",
        # steady state
        "steadystate", "steadystate_duration", "steadystate_ramp_time",
        # processes
        "cpus_allowed", "cpus_allowed_policy", "ioprio", "prio", "prioclass", "nice", "numa_cpu_nodes",
        # the buffer memory
        "iomem_align", "lockmem",
    }
)  # fmt: skip
