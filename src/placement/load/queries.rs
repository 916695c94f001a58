//! What Prometheus is asked unless another query is configured: `node_exporter`'s metrics of nodes, cAdvisor's of
//! containers.
//!
//! Each answer is a mean over a window, whose length takes the place of `$window`. `rate(..[1d])` divides by a whole day even
//! where a series is an hour old: a node that just came would seem to be busy all day. What is made of counters is therefore
//! divided by the time for which there are samples: by what all modes of core 0 counted together, which is a second a second.
//!
//! `and node_load1` leaves only exporters that answer now: after an exporter was restarted under another name, or an address went
//! to another node, the series of before would be believed for a whole window, and the greater of the two counts.
//!
//! Labels are taken away with `without`, so that those stay in which a node is looked for.

/// The share of CPU time that was neither idle nor spent waiting for disks, which is free for others.
/// An idle core counts a little more or less than a second a second, hence the bound.
pub const CPU: &str = "clamp_min(1 - avg without (cpu) (sum without (mode) \
    (rate(node_cpu_seconds_total{mode=~\"idle|iowait\"}[$window]))) \
    / sum without (cpu, mode) (rate(node_cpu_seconds_total{cpu=\"0\"}[$window])), 0) and node_load1";
/// 1 - available / total.
pub const MEMORY: &str = "1 - avg_over_time(node_memory_MemAvailable_bytes[$window]) / \
    avg_over_time(node_memory_MemTotal_bytes[$window]) and node_load1";
/// The share of time in which the busiest disk was busy; none in memory, and none that is a view of others.
pub const DISK: &str = "max without (device) (rate(node_disk_io_time_seconds_total\
    {device!~\"(loop|ram|zram|sr|fd|dm-|md).*\"}[$window])) \
    / sum without (cpu, mode) (rate(node_cpu_seconds_total{cpu=\"0\"}[$window])) and node_load1";
/// The load average per core.
pub const LOAD: &str = "avg_over_time(node_load1[$window]) / \
    count without (cpu, mode) (node_cpu_seconds_total{mode=\"idle\"})";
/// The share of the bandwidth of the busiest interface, in its busier direction. Interfaces that do not tell their
/// speed are left out, and so are virtual ones.
pub const NETWORK: &str = "max without (device) ((\
    rate(node_network_receive_bytes_total[$window]) > rate(node_network_transmit_bytes_total[$window]) \
    or rate(node_network_transmit_bytes_total[$window])) \
    / (node_network_speed_bytes{device!~\"(veth|cali|lxc|tap|tun|br-|docker|virbr|cni|flannel|bond).*\"} > 0)) \
    / sum without (cpu, mode) (rate(node_cpu_seconds_total{cpu=\"0\"}[$window])) and node_load1";
/// When a node was measured last, in seconds since 1970.
pub const TIME: &str = "timestamp(node_load1)";

/// CPU usage of each container, in cores.
pub const CONTAINER_CPU: &str = "max by (namespace, pod, container) \
    (rate(container_cpu_usage_seconds_total{container!=\"\",container!=\"POD\"}[5m]))";
/// Memory usage of each container, in bytes.
pub const CONTAINER_MEMORY: &str = "max by (namespace, pod, container) \
    (container_memory_working_set_bytes{container!=\"\",container!=\"POD\"})";
/// What each pod sends or receives, whichever is more, in bits a second: the containers of a pod share one network. What
/// several scrapers tell of an interface, or of a disk, counts once.
pub const POD_BANDWIDTH: &str = "8 * (\
    sum by (namespace, pod) (max by (namespace, pod, interface) \
    (rate(container_network_receive_bytes_total{pod!=\"\"}[5m]))) > \
    sum by (namespace, pod) (max by (namespace, pod, interface) \
    (rate(container_network_transmit_bytes_total{pod!=\"\"}[5m]))) or \
    sum by (namespace, pod) (max by (namespace, pod, interface) \
    (rate(container_network_transmit_bytes_total{pod!=\"\"}[5m]))))";
/// What each container stores on its node, in bytes.
pub const CONTAINER_DISK: &str = "sum by (namespace, pod, container) (max by (namespace, pod, container, device) \
    (container_fs_usage_bytes{container!=\"\",container!=\"POD\"}))";
/// What each node can send and receive, in bits a second: that of its fastest interface.
pub const TOTAL_BANDWIDTH: &str = "8 * max without (device) (node_network_speed_bytes\
    {device!~\"(veth|cali|lxc|tap|tun|br-|docker|virbr|cni|flannel).*\"} > 0)";
/// What each node can store, in bytes: that of its largest file system.
pub const TOTAL_DISK: &str = "max without (device, device_error, fstype, mountpoint) \
    (node_filesystem_size_bytes{fstype!~\"tmpfs|ramfs|overlay|squashfs\"})";
/// The share of a node's file systems that is free for users other than root. One that is mounted several times counts
/// once, one of another machine not at all. It is of the present: an exporter that is gone says nothing.
pub const IDLE_DISK: &str = "sum without (device) (max without (device_error, fstype, mountpoint) \
    (node_filesystem_avail_bytes{fstype!~\"tmpfs|ramfs|overlay|squashfs|iso9660|nfs4?|cifs|ceph|fuse.*\"})) \
    / sum without (device) (max without (device_error, fstype, mountpoint) \
    (node_filesystem_size_bytes{fstype!~\"tmpfs|ramfs|overlay|squashfs|iso9660|nfs4?|cifs|ceph|fuse.*\"}))";

#[cfg(test)]
mod tests {
    use super::*;

    /// A series that ended is in a window for as long as that lasts.
    #[test]
    fn means_are_only_those_of_exporters_that_answer_now() {
        for (metric, query) in [("cpu", CPU), ("memory", MEMORY), ("disk", DISK), ("network", NETWORK)] {
            assert!(query.ends_with("and node_load1"), "{metric}: {query}");
        }
        assert!(
            LOAD.contains("/ count without (cpu, mode) (node_cpu_seconds_total{"),
            "of the present: {LOAD}"
        );
        for query in [CPU, MEMORY, DISK, LOAD, NETWORK] {
            assert!(query.contains("[$window]"), "{query}");
        }
        for query in [TIME, TOTAL_BANDWIDTH, TOTAL_DISK, IDLE_DISK] {
            assert!(!query.contains('['), "of the present: {query}");
        }
    }
}
