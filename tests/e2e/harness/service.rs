//! What a Service does for a webhook: new connections go to ready replicas in turn, open ones stay where they are.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::net::http_get;

/// How often a replica is asked whether it is ready.
const PROBE_PERIOD: Duration = Duration::from_millis(200);

#[derive(Debug, Clone)]
struct Backend {
    name: String,
    admission: SocketAddr,
    ready: bool,
}

#[derive(Debug, Default)]
struct State {
    backends: Mutex<Vec<Backend>>,
    turn: AtomicUsize,
    /// Changes when every open connection is to end.
    cut: watch::Sender<()>,
}

/// Forwards connections until the runtime ends.
#[derive(Debug, Clone)]
pub(crate) struct Service {
    port: u16,
    state: Arc<State>,
}

impl Service {
    /// Listens on a free port of `address`.
    pub(crate) async fn listen(address: Ipv4Addr) -> Result<Self> {
        let listener = TcpListener::bind((address, 0)).await?;
        let service = Self { port: listener.local_addr()?.port(), state: Arc::default() };
        let state = Arc::clone(&service.state);
        tokio::spawn(async move {
            loop {
                let Ok((client, _)) = listener.accept().await else { continue };
                tokio::spawn(forward(client, Arc::clone(&state)));
            }
        });
        Ok(service)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Adds a replica. It gets connections once `/readyz` at `probes` answers 200, and none while it does not.
    pub(crate) fn add(&self, name: &str, admission: SocketAddr, probes: SocketAddr) {
        self.state.with(|all| all.push(Backend { name: name.into(), admission, ready: false }));
        let (state, name) = (Arc::clone(&self.state), name.to_owned());
        tokio::spawn(async move {
            loop {
                let probe = timeout(Duration::from_secs(1), http_get(probes, "/readyz")).await;
                let ready = matches!(probe, Ok(Ok((200, _))));
                let known = state.with(|all| {
                    let mut mine = all.iter_mut().filter(|backend| backend.name == name);
                    mine.next().map(|backend| backend.ready = ready).is_some()
                });
                if !known {
                    return;
                }
                sleep(PROBE_PERIOD).await;
            }
        });
    }

    pub(crate) fn remove(&self, name: &str) {
        self.state.with(|all| all.retain(|backend| backend.name != name));
    }

    /// Ends every open connection; who calls next is spread over the replicas again.
    pub(crate) fn cut_connections(&self) {
        self.state.cut.send_replace(());
    }

    /// Whether the replica gets connections.
    pub(crate) fn routes_to(&self, name: &str) -> bool {
        self.state.with(|all| all.iter().any(|backend| backend.name == name && backend.ready))
    }
}

impl State {
    fn with<T>(&self, act: impl FnOnce(&mut Vec<Backend>) -> T) -> T {
        act(&mut self.backends.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The next ready replica.
    fn next(&self) -> Option<SocketAddr> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        self.with(|all| {
            let ready: Vec<_> = all.iter().filter(|backend| backend.ready).map(|b| b.admission).collect();
            ready.get(turn.checked_rem(ready.len())?).copied()
        })
    }
}

/// One connection. Without a ready replica it is closed, as a Service without endpoints refuses it.
async fn forward(mut client: TcpStream, state: Arc<State>) {
    let Some(backend) = state.next() else { return };
    if let Ok(mut server) = TcpStream::connect(backend).await {
        let mut cut = state.cut.subscribe();
        // An end in the middle is the business of the two sides.
        tokio::select! {
            _ = copy_bidirectional(&mut client, &mut server) => {}
            _ = cut.changed() => {}
        }
    }
}
