//! The way out: nobody who follows the rules loses a call.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::{Connection, Server, client};
use crate::wait::{until, within};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_loop_client_sees_no_failed_call() {
    let server = Server::with(|options| options.drain_delay = Duration::from_millis(300)).await;
    let config = client(server.store.ca_pem().unwrap());
    let answered = Arc::new(AtomicUsize::new(0));
    let clients: Vec<_> = (0..8)
        .map(|_| {
            let (config, address, answered) = (config.clone(), server.address, Arc::clone(&answered));
            tokio::spawn(async move {
                // Until the listener is gone, as after the endpoint has been taken out of the Service.
                while let Ok(mut connection) = Connection::open(address, config.clone()).await {
                    loop {
                        let response = connection.call("/mutate", "{}").await;
                        assert_eq!(response.status, 200);
                        answered.fetch_add(1, Ordering::Relaxed);
                        if response.closes() {
                            break;
                        }
                    }
                }
            })
        })
        .collect();
    until("some calls", || answered.load(Ordering::Relaxed) > 50).await;
    server.shutdown.drain();
    let before = answered.load(Ordering::Relaxed);
    for client in clients {
        within(client).await.expect("a call failed");
    }
    assert!(answered.load(Ordering::Relaxed) > before, "still serving while draining");
    server.ended().await;
}

#[tokio::test]
async fn while_draining_a_kept_connection_is_told_once() {
    let server = Server::with(|options| options.drain_delay = Duration::from_secs(600)).await;
    let mut kept = server.connect().await;
    assert!(!kept.call("/mutate", "{}").await.closes());
    server.shutdown.drain();
    let response = kept.call("/mutate", "{}").await;
    assert_eq!(response.status, 200);
    assert!(response.closes());
    kept.closed().await;
    assert!(server.connect().await.call("/mutate", "{}").await.closes(), "new connections are served too");
    server.stop().await;
}

#[tokio::test]
async fn what_is_in_flight_is_finished() {
    let server = Server::with(|_| {}).await;
    let mut busy = server.connect().await;
    busy.post("/mutate", "wait").await;
    server.entered().await;
    let mut idle = server.connect().await;
    assert_eq!(idle.call("/mutate", "{}").await.status, 200);
    server.shutdown.drain();
    idle.closed().await;
    drop(idle);
    until("the listener is closed", || std::net::TcpStream::connect(server.address).is_err()).await;
    server.admission.gate.add_permits(1);
    let response = busy.response().await;
    assert_eq!(response.status, 200);
    assert!(response.closes());
    busy.closed().await;
    drop(busy);
    server.ended().await;
}

#[tokio::test]
async fn the_shutdown_timeout_bounds_what_is_in_flight() {
    let server = Server::with(|options| options.shutdown_timeout = Duration::from_millis(100)).await;
    let mut busy = server.connect().await;
    busy.post("/mutate", "wait").await;
    server.entered().await;
    server.shutdown.drain();
    busy.closed().await;
    server.ended().await;
}

#[tokio::test]
async fn a_client_that_has_just_connected_gets_its_answer() {
    let server = Server::with(|_| {}).await;
    let mut fresh = server.connect().await;
    server.shutdown.drain();
    until("the listener is closed", || std::net::TcpStream::connect(server.address).is_err()).await;
    let response = fresh.call("/mutate", "{}").await;
    assert_eq!(response.status, 200);
    assert!(response.closes());
    drop(fresh);
    server.ended().await;
}

#[cfg(unix)]
mod signals {
    use std::io::{BufRead as _, BufReader};
    use std::process::{Command, Stdio};

    use plimsoll::server::Shutdown;

    /// Not a test: what [`the_first_drains_and_the_second_ends`] runs as a process of its own.
    #[tokio::test]
    #[ignore = "run by another test"]
    async fn child() {
        let shutdown = Shutdown::on_signals().unwrap();
        println!("child: running");
        shutdown.draining().await;
        println!("child: draining");
        std::future::pending::<()>().await;
    }

    #[test]
    fn the_first_drains_and_the_second_ends() {
        for (name, code) in [("TERM", 143), ("INT", 130)] {
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args(["--ignored", "--exact", "drain::signals::child", "--nocapture"])
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
            let signal = || {
                let id = child.id().to_string();
                assert!(Command::new("kill").args(["-s", name, &id]).status().unwrap().success());
            };
            assert!(lines.any(|line| line.ends_with("child: running")), "{name}");
            signal();
            assert!(lines.any(|line| line.ends_with("child: draining")), "{name}");
            signal();
            assert_eq!(child.wait().unwrap().code(), Some(code), "{name}");
        }
    }
}
