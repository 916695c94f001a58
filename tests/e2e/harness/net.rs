//! Ports, the smallest possible HTTP client, and a look at a server's certificate.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use anyhow::{Context, Result, bail};
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// How many ports were looked at so far: who asks later is not given one that was taken before and is not listened on yet.
static LOOKED_AT: AtomicU16 = AtomicU16::new(0);

/// Free ports on loopback that no outgoing connection is given meanwhile: for what starts later, or again and again.
pub(crate) fn free_ports<const N: usize>() -> Result<[u16; N]> {
    /// Where Linux says from where on it takes ports for outgoing connections.
    const RANGE: &str = "/proc/sys/net/ipv4/ip_local_port_range";
    /// So many below that are used in turn.
    const SPAN: u16 = 10_000;
    let range = std::fs::read_to_string(RANGE).unwrap_or_default();
    let first: u16 = range.split_whitespace().next().and_then(|port| port.parse().ok()).unwrap_or(32_768);
    // Where all of them are for outgoing connections, these are as good as any.
    let lowest = first.saturating_sub(SPAN).max(10_000);
    // Runs beside each other begin at different places.
    let offset = u16::try_from(std::process::id() % 5_000)?;
    let mut held = Vec::with_capacity(N);
    let mut ports = [0; N];
    for port in &mut ports {
        let mut next = (0..SPAN).map(|_| {
            let number = LOOKED_AT.fetch_add(1, Ordering::Relaxed).wrapping_add(offset);
            lowest + number % SPAN
        });
        let listener = next.find_map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok());
        let listener = listener.with_context(|| format!("no free port from {lowest} on"))?;
        *port = listener.local_addr()?.port();
        // All are held until the last is found, so that they differ.
        held.push(listener);
    }
    Ok(ports)
}

/// `GET path`: the status code and the body. HTTP/1.0, so that the body simply ends with the connection.
pub(crate) async fn http_get(address: SocketAddr, path: &str) -> Result<(u16, String)> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    let answer = String::from_utf8_lossy(&answer);
    let Some((head, body)) = answer.split_once("\r\n\r\n") else { bail!("not an HTTP answer: {answer:?}") };
    let code = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    Ok((code.with_context(|| format!("no status code in {head:?}"))?, body.to_owned()))
}

/// The serial number (decimal) of the certificate that `address` serves for `name`, after it was verified against `ca`.
pub(crate) async fn serving_serial(
    address: SocketAddr,
    name: &str,
    ca: &CertificateDer<'static>,
) -> Result<String> {
    let mut roots = RootCertStore::empty();
    roots.add(ca.clone())?;
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from(name.to_owned())?;
    let tls = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
    let chain = tls.get_ref().1.peer_certificates().context("the server showed no certificate")?;
    let leaf = chain.first().context("the server showed an empty chain")?;
    let (_, leaf) = x509_parser::parse_x509_certificate(leaf)?;
    Ok(leaf.tbs_certificate.serial.to_str_radix(10))
}

/// A port of 127.0.0.1 that leads to another address, as `kubectl port-forward` makes one; until it is dropped.
#[derive(Debug)]
pub(crate) struct Forward {
    pub(crate) address: SocketAddr,
    _tasks: JoinSet<()>,
}

impl Forward {
    pub(crate) async fn to(address: SocketAddr) -> Result<Self> {
        let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let own = listener.local_addr()?;
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                // Who asks sees when nobody is there.
                let Ok(mut server) = TcpStream::connect(address).await else { continue };
                copy_bidirectional(&mut client, &mut server).await.ok();
            }
        });
        Ok(Self { address: own, _tasks: tasks })
    }
}
