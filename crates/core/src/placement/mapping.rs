//! Which node a series is about: sources name nodes by name, by address, or by an exporter's `host:port`.

use std::borrow::Cow;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use crate::objects::Objects;
use crate::placement::estimate::units;
use crate::placement::load::Totals;
use crate::placement::weights::NodeResource;

/// A node as sources of load need to know it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KnownNode {
    /// Its name.
    pub name: Arc<str>,
    /// Its addresses: internal ones, and host names.
    pub addresses: Vec<Arc<str>>,
    /// Its raw capacity: cores, bytes. What Kubernetes does not tell is `None`.
    pub capacity: Totals,
}

/// The nodes of the cluster, to be found by what sources call them.
#[derive(Clone, Debug, Default)]
pub struct KnownNodes {
    capacities: HashMap<Arc<str>, Totals>,
    /// `None`: several nodes say that it is theirs.
    addresses: HashMap<IpAddr, Option<Arc<str>>>,
    hosts: HashMap<String, Option<Arc<str>>>,
}

impl KnownNodes {
    /// These are all nodes.
    pub fn new(nodes: impl IntoIterator<Item = KnownNode>) -> Self {
        let mut known = Self::default();
        for KnownNode { name, addresses, capacity } in nodes {
            for address in &addresses {
                let owner = Some(Arc::clone(&name));
                match address.parse::<IpAddr>() {
                    Ok(address) => insert(&mut known.addresses, address.to_canonical(), owner),
                    Err(_) => insert(&mut known.hosts, address.to_ascii_lowercase(), owner),
                }
            }
            known.capacities.insert(name, capacity);
        }
        known
    }

    /// All nodes of a snapshot.
    pub fn of(objects: &Objects) -> Self {
        Self::new(objects.nodes().map(|node| {
            let amount = |name| node.capacity.get(name).map(units).filter(|amount| *amount > 0.0);
            let mut capacity = Totals::default();
            capacity.set(NodeResource::Cpu, amount("cpu"));
            capacity.set(NodeResource::Memory, amount("memory"));
            let addresses = node.addresses.iter().map(|address| Arc::from(address.as_ref())).collect();
            KnownNode { name: node.name.as_str().into(), addresses, capacity }
        }))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.capacities.is_empty()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.capacities.len()
    }

    /// The names of all.
    pub fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.capacities.keys()
    }

    /// The raw capacity of a node.
    pub fn capacity(&self, name: &str) -> Option<Totals> {
        self.capacities.get(name).copied()
    }

    /// The node that the first of these labels names that names any.
    pub fn first(&self, labels: &[Option<Cow<'_, str>>]) -> Option<&Arc<str>> {
        labels.iter().flatten().find_map(|label| self.find(label))
    }

    /// The node of that name, else of that address, with or without a port: `n1`, `10.0.0.5:9100`, `[fd00::5]:9100`,
    /// `fd00::5`. An address that several nodes have is none's: a wrong load is worse than no load.
    pub fn find(&self, text: &str) -> Option<&Arc<str>> {
        if let Some((name, _)) = self.capacities.get_key_value(text) {
            return Some(name);
        }
        let host = host(text)?;
        if let Some((name, _)) = self.capacities.get_key_value(host) {
            return Some(name);
        }
        if let Ok(address) = host.parse::<IpAddr>() {
            return self.addresses.get(&address.to_canonical())?.as_ref();
        }
        let host = host.to_ascii_lowercase();
        let named = self.capacities.get_key_value(host.as_str()).map(|(name, _)| name);
        named.or_else(|| self.hosts.get(&host)?.as_ref())
    }
}

fn insert<K: std::hash::Hash + Eq>(map: &mut HashMap<K, Option<Arc<str>>>, key: K, owner: Option<Arc<str>>) {
    map.entry(key)
        .and_modify(|known| {
            if *known != owner {
                *known = None;
            }
        })
        .or_insert(owner);
}

/// What is before the port, without brackets; `None` for what is neither a host nor an address.
fn host(text: &str) -> Option<&str> {
    if let Some(rest) = text.strip_prefix('[') {
        let (address, rest) = rest.split_once(']')?;
        return (rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port)).then_some(address);
    }
    match text.rsplit_once(':') {
        // An IPv6 address without brackets has no port.
        Some((host, port)) if !host.contains(':') => is_port(port).then_some(host),
        _ => Some(text),
    }
}

fn is_port(text: &str) -> bool {
    text.parse::<u16>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes() -> KnownNodes {
        let node = |name: &str, addresses: &[&str]| KnownNode {
            name: name.into(),
            addresses: addresses.iter().map(|address| Arc::from(*address)).collect(),
            capacity: Totals::default(),
        };
        KnownNodes::new([
            node("n1", &["10.0.0.1", "Host-1.example.com", "10.0.0.9"]),
            node("n2", &["10.0.0.2", "fd00::2", "n1", "10.0.0.9"]),
            node("10.0.0.3", &["10.0.0.7"]),
            node("n4.example.com", &["10.0.0.4", "10.0.0.4"]),
            node("n5", &["10.0.0.3", "FD00:0:0::5"]),
        ])
    }

    #[test]
    fn a_label_names_a_node() {
        for (rule, text, expected) in [
            ("a name", "n1", Some("n1")),
            ("a name with a port", "n1:9100", Some("n1")),
            ("a qualified name", "n4.example.com:9100", Some("n4.example.com")),
            ("names are in lower case", "N4.Example.com", Some("n4.example.com")),
            ("an InternalIP", "10.0.0.1", Some("n1")),
            ("an InternalIP with a port", "10.0.0.2:9100", Some("n2")),
            ("a Hostname, in any case", "HOST-1.example.com:9100", Some("n1")),
            ("an IPv6 address", "fd00::2", Some("n2")),
            ("an IPv6 address in brackets", "[fd00::2]", Some("n2")),
            ("an IPv6 address with a port", "[fd00::2]:9100", Some("n2")),
            ("an IPv6 address, written otherwise", "[FD00:0:0:0::2]:9100", Some("n2")),
            ("the node's address written otherwise", "fd00::5", Some("n5")),
            ("an IPv4 address as one of IPv6", "[::ffff:10.0.0.1]:9100", Some("n1")),
            ("a name comes before another's address", "10.0.0.3:9100", Some("10.0.0.3")),
            ("a name comes before another's host name", "n1:1", Some("n1")),
            ("an address twice at one node", "10.0.0.4", Some("n4.example.com")),
            ("an address of two nodes is none's", "10.0.0.9:9100", None),
            ("nobody", "n9", None),
            ("nobody's address", "10.0.0.8:9100", None),
            ("nothing", "", None),
            ("no port", "n1:metrics", None),
            ("a port that is none", "n1:70000", None),
            ("brackets that are not closed", "[fd00::2", None),
            ("something behind brackets", "[fd00::2]x", None),
            ("a URL", "http://10.0.0.1:9100", None),
        ] {
            assert_eq!(nodes().find(text).map(AsRef::as_ref), expected, "{rule}: {text}");
        }
    }

    #[test]
    fn the_first_label_that_names_a_node_counts() {
        let label = |text: &'static str| Some(Cow::from(text));
        for (rule, labels, expected) in [
            ("the first", vec![label("n1"), label("n2")], Some("n1")),
            ("not one that is not there", vec![None, label("n2")], Some("n2")),
            ("not one that names nobody", vec![label("pod-7:9100"), label("10.0.0.2:9100")], Some("n2")),
            ("none", vec![None, label("x")], None),
            ("no label", vec![], None),
        ] {
            assert_eq!(nodes().first(&labels).map(AsRef::as_ref), expected, "{rule}");
        }
    }
}
