//! One handle that says how far the process is on its way out.
//!
//! Running -> draining (not ready, still serving) -> closing (no new connections) -> finished. The parts of the
//! process hold clones and wait for the step that concerns them.

use tokio_util::sync::CancellationToken;

/// The handle. Clones share the state.
#[derive(Clone, Debug, Default)]
pub struct Shutdown {
    draining: CancellationToken,
    closing: CancellationToken,
    finished: CancellationToken,
}

impl Shutdown {
    /// A handle that only code triggers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A handle that SIGTERM and SIGINT trigger as well. A second signal ends the process at once, with the exit
    /// code 128 + the signal's number that a shell would give.
    ///
    /// # Errors
    ///
    /// When the signal handlers cannot be installed.
    pub fn on_signals() -> std::io::Result<Self> {
        let shutdown = Self::new();
        let mut signals = Signals::new()?;
        let handle = shutdown.clone();
        tokio::spawn(async move {
            let first = signals.next().await;
            tracing::info!(signal = first.name, "told to stop: draining");
            handle.drain();
            let second = signals.next().await;
            tracing::warn!(signal = second.name, "told to stop again: exiting at once");
            std::process::exit(128 + second.number);
        });
        Ok(shutdown)
    }

    /// Starts the way out: not ready any more, still serving.
    pub fn drain(&self) {
        self.draining.cancel();
    }

    /// Ends serving now, without waiting for the rest of the drain delay.
    pub fn close(&self) {
        self.draining.cancel();
        self.closing.cancel();
    }

    /// Ends what serves to the very last, such as the probes.
    pub fn finish(&self) {
        self.close();
        self.finished.cancel();
    }

    /// Whether the way out has begun.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.draining.is_cancelled()
    }

    /// Waits until the way out begins.
    pub async fn draining(&self) {
        self.draining.cancelled().await;
    }

    /// Waits until [`close`](Self::close) is called.
    pub async fn closing(&self) {
        self.closing.cancelled().await;
    }

    /// Waits until [`finish`](Self::finish) is called.
    pub async fn finished(&self) {
        self.finished.cancelled().await;
    }
}

struct Signal {
    name: &'static str,
    number: i32,
}

#[cfg(unix)]
struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn new() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.terminate.recv() => Signal { name: "SIGTERM", number: 15 },
            _ = self.interrupt.recv() => Signal { name: "SIGINT", number: 2 },
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self)
    }

    async fn next(&mut self) -> Signal {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        Signal { name: "Ctrl-C", number: 2 }
    }
}
