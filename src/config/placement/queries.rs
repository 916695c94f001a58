//! What Prometheus is asked unless another query is configured: metrics of nodes as `node_exporter` names them, and of
//! containers as cAdvisor does.
//!
//! Labels are taken away with `without`, so that those stay in which a node is looked for. `$window` becomes each window.

/// The share of CPU time that was not idle.
pub(crate) const CPU: &str = "1 - avg without (cpu) (sum without (mode) \
    (rate(node_cpu_seconds_total{mode=~\"idle|iowait\"}[$window])))";
/// 1 - available / total.
pub(crate) const MEMORY: &str = "1 - avg_over_time(node_memory_MemAvailable_bytes[$window]) / \
    avg_over_time(node_memory_MemTotal_bytes[$window])";
/// The share of time in which the busiest disk was busy; not those in memory, and none that is only a view of another.
pub(crate) const DISK: &str = "max without (device) (rate(node_disk_io_time_seconds_total\
    {device!~\"(loop|ram|zram|sr|fd|dm-|md).*\"}[$window]))";
/// The load average per core.
pub(crate) const LOAD: &str = "avg_over_time(node_load1[$window]) / \
    count without (cpu, mode) (node_cpu_seconds_total{mode=\"idle\"})";
/// The share of the bandwidth of the busiest interface, in its busier direction. Interfaces that do not tell their
/// speed are left out.
pub(crate) const NETWORK: &str = "max without (device) ((rate(node_network_receive_bytes_total[$window]) > \
    rate(node_network_transmit_bytes_total[$window]) or rate(node_network_transmit_bytes_total[$window])) / \
    (node_network_speed_bytes > 0))";
/// When a node was measured last, in seconds since 1970.
pub(crate) const TIME: &str = "timestamp(node_load1)";

/// CPU usage of each container, in cores.
pub(crate) const CONTAINER_CPU: &str =
    "rate(container_cpu_usage_seconds_total{container!=\"\",container!=\"POD\"}[5m])";
/// Memory usage of each container, in bytes.
pub(crate) const CONTAINER_MEMORY: &str =
    "container_memory_working_set_bytes{container!=\"\",container!=\"POD\"}";
/// What each pod sends and receives, in bits a second: containers of a pod share one network.
pub(crate) const POD_BANDWIDTH: &str = "8 * sum without (interface) \
    (rate(container_network_receive_bytes_total{pod!=\"\"}[5m]) + rate(container_network_transmit_bytes_total{pod!=\"\"}[5m]))";
/// What each container stores on its node, in bytes.
pub(crate) const CONTAINER_DISK: &str =
    "sum without (device) (container_fs_usage_bytes{container!=\"\",container!=\"POD\"})";
/// What each node can send and receive, in bits a second.
pub(crate) const TOTAL_BANDWIDTH: &str = "8 * max without (device) (node_network_speed_bytes > 0)";
/// What each node can store, in bytes: its largest file system.
pub(crate) const TOTAL_DISK: &str = "max without (device, device_error, fstype, mountpoint) \
    (node_filesystem_size_bytes{fstype!~\"tmpfs|ramfs|overlay|squashfs\"})";
