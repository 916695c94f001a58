//! What the network of a cluster does for its API server: addresses of Services lead to pods that are ready.
//!
//! Nobody here routes the addresses of Services or pods. The API server hands its connections to webhooks and aggregated
//! APIs to a proxy instead (`--egress-selector-config-file`, as with Konnectivity); it asks for the address and the port
//! of a Service, and this finds the pods behind it by their `EndpointSlices`, as kube-proxy would. So every object stays as
//! it was installed.

use std::net::{Ipv4Addr, SocketAddr};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net as unix;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpStream, UnixListener, UnixStream};

use super::cluster::Cluster;

/// Forwards connections until the runtime ends.
#[derive(Clone)]
pub(crate) struct Network {
    socket: String,
    shared: Arc<Shared>,
}

struct Shared {
    cluster: OnceLock<Cluster>,
    pods: PodAddresses,
    turn: AtomicUsize,
}

/// The pod with the address 10.244.a.b is a process that listens on 127.X.a.b, at the very ports of the pod: Linux takes
/// all of 127.0.0.0/8 for itself, and `EndpointSlices` may not hold such addresses. X differs between runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PodAddresses {
    second: u8,
}

impl PodAddresses {
    fn of_this_run() -> Self {
        let spread = u8::try_from(std::process::id() % 128).unwrap_or_default();
        Self { second: 64 + spread }
    }

    /// The address of the pod with this number, in the cluster.
    pub(crate) fn in_cluster(number: u16) -> Ipv4Addr {
        let [third, fourth] = number.to_be_bytes();
        Ipv4Addr::new(10, 244, third, fourth)
    }

    /// Where the process of the pod listens.
    pub(crate) fn local(self, pod: Ipv4Addr) -> Option<Ipv4Addr> {
        match pod.octets() {
            [10, 244, third, fourth] => Some(Ipv4Addr::new(127, self.second, third, fourth)),
            _ => None,
        }
    }
}

impl Network {
    /// Listens; it can tell Services from [`Network::connect`] on.
    pub(crate) fn listen() -> Result<Self> {
        // In Linux's abstract namespace, written as Go writes it: no file that stays, nor a path that is too long.
        let name = format!("plimsoll-e2e-{}", std::process::id());
        let address = unix::SocketAddr::from_abstract_name(&name)?;
        let listener = unix::UnixListener::bind_addr(&address).context("the proxy's socket")?;
        listener.set_nonblocking(true)?;
        let listener = UnixListener::from_std(listener)?;
        let shared = Arc::new(Shared {
            cluster: OnceLock::new(),
            pods: PodAddresses::of_this_run(),
            turn: AtomicUsize::default(),
        });
        let network = Self { socket: format!("@{name}"), shared: Arc::clone(&shared) };
        tokio::spawn(async move {
            loop {
                let Ok((client, _)) = listener.accept().await else { continue };
                let shared = Arc::clone(&shared);
                // An end in the middle is the business of the two sides.
                tokio::spawn(async move { forward(client, &shared).await.ok() });
            }
        });
        Ok(network)
    }

    pub(crate) fn socket(&self) -> &str {
        &self.socket
    }

    pub(crate) fn pods(&self) -> PodAddresses {
        self.shared.pods
    }

    pub(crate) fn connect(&self, cluster: &Cluster) {
        // Only ever connected once.
        let _ = self.shared.cluster.set(cluster.clone());
    }
}

async fn forward(mut client: UnixStream, shared: &Shared) -> Result<()> {
    let wanted = asked_for(&mut client).await?;
    let outcome =
        async { Ok::<_, anyhow::Error>(TcpStream::connect(shared.resolve(wanted).await?).await?) }.await;
    match outcome {
        Ok(mut server) => {
            client.write_all(b"HTTP/1.1 200 Connected\r\n\r\n").await?;
            copy_bidirectional(&mut client, &mut server).await?;
        }
        Err(error) => {
            let line = format!("HTTP/1.1 502 {error:#}").replace(['\r', '\n'], " ");
            client.write_all(format!("{line}\r\n\r\n").as_bytes()).await?;
        }
    }
    Ok(())
}

/// Reads `CONNECT address:port`.
async fn asked_for(client: &mut UnixStream) -> Result<SocketAddr> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        ensure!(head.len() < 8192, "the head of the request does not end");
        head.push(client.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head);
    let mut words = head.split_whitespace();
    ensure!(words.next() == Some("CONNECT"), "not CONNECT: {head:?}");
    // A Service of type ExternalName.
    let address = words.next().context("no address")?.replace("localhost", "127.0.0.1");
    address.parse().with_context(|| format!("no address: {head:?}"))
}

impl Shared {
    /// Where a connection to this address of the cluster goes.
    async fn resolve(&self, wanted: SocketAddr) -> Result<SocketAddr> {
        let SocketAddr::V4(address) = wanted else { bail!("{wanted}: only IPv4 is known here") };
        if address.ip().is_loopback() {
            return Ok(wanted);
        }
        if let Some(local) = self.pods.local(*address.ip()) {
            return Ok((local, address.port()).into());
        }
        let cluster = self.cluster.get().context("the cluster is not there yet")?;
        let ip = address.ip().to_string();
        let services = cluster.list("v1", "Service", None, "").await?;
        let service = services.iter().find(|service| service["spec"]["clusterIP"] == ip.as_str());
        let service = service.with_context(|| format!("no Service has the address {ip}"))?;
        let mut ports = service["spec"]["ports"].as_array().into_iter().flatten();
        let port = ports.find(|port| port["port"] == address.port());
        let port = port.with_context(|| format!("the Service has no port {}", address.port()))?;
        self.endpoint(cluster, service, port.get("name")).await
    }

    /// One of the pods behind a Service, in turn: a ready one, else one that still serves while it ends.
    async fn endpoint(&self, cluster: &Cluster, service: &Value, port: Option<&Value>) -> Result<SocketAddr> {
        let metadata = &service["metadata"];
        let name = metadata["name"].as_str().unwrap_or_default();
        let selector = format!("kubernetes.io/service-name={name}");
        let slices = cluster
            .list("discovery.k8s.io/v1", "EndpointSlice", metadata["namespace"].as_str(), &selector)
            .await?;
        let mut found = Vec::new();
        for slice in &slices {
            let mut ports = slice["ports"].as_array().into_iter().flatten();
            // A port without a name is the only one of its Service, and has the name "" in the slice.
            let is_it = |there: &&Value| {
                there["name"].as_str().unwrap_or("") == port.and_then(Value::as_str).unwrap_or("")
            };
            let Some(number) = ports.find(is_it).and_then(|port| port["port"].as_u64()) else { continue };
            let number = u16::try_from(number)?;
            for endpoint in slice["endpoints"].as_array().into_iter().flatten() {
                let local =
                    endpoint["addresses"][0].as_str().and_then(|text| self.pods.local(text.parse().ok()?));
                if let Some(local) = local {
                    found.push((&endpoint["conditions"], SocketAddr::from((local, number))));
                }
            }
        }
        let having = |condition: &str| {
            let those = found.iter().filter(|(conditions, _)| conditions[condition] == true);
            those.map(|(_, address)| *address).collect::<Vec<_>>()
        };
        let ready =
            Some(having("ready")).filter(|ready| !ready.is_empty()).unwrap_or_else(|| having("serving"));
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let chosen = turn.checked_rem(ready.len()).and_then(|turn| ready.get(turn));
        chosen.copied().with_context(|| format!("no pod behind the Service {name} is ready"))
    }
}
